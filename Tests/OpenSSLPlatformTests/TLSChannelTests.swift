import Bytes
import LinuxPlatform
import OpenSSLPlatform
import Seams
import Testing

/// Two sides of TLS connections, without sockets.
@Suite struct TLSChannelTests {
    /// Of RFC 8032, section 7.1, tests 1 and 2.
    private static let first = KeyPair(
        publicKey: bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"),
        privateKey: bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    )
    private static let second = KeyPair(
        publicKey: bytes("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"),
        privateKey: bytes("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    )

    private static func bytes(_ digits: String) -> [UInt8] {
        let digits = Array(digits)
        return stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(digits[$0...$0 + 1]), radix: 16)
        }
    }

    /// One side, and what it has received.
    private final class Side {
        let channel: any SecureChannel
        let content = ByteWriter()
        let output = ByteWriter()
        var input: [UInt8] = []
        var reason: String?

        init(_ keys: KeyPair, isInitiator: Bool, limits: TLSLimits) {
            let identity = OpenSSLSecurity(limits: limits).identity(of: keys)
            channel = identity.makeChannel(isInitiator: isInitiator)
        }

        /// Handles what has arrived; returns what is to be sent.
        func receive(_ bytes: [UInt8]) -> [UInt8] {
            input += bytes
            while reason == nil {
                let progress = input.withUnsafeBytes {
                    channel.receive(ByteView($0), content: content, output: output)
                }
                input.removeFirst(progress.consumed)
                if case .close(let why) = progress.next { reason = why }
                guard case .more = progress.next else { break }
            }
            return take()
        }

        func send(_ bytes: [UInt8]) -> [UInt8] {
            let isSent = bytes.withUnsafeBytes { channel.send(ByteView($0), output: output) }
            #expect(isSent)
            return take()
        }

        private func take() -> [UInt8] {
            defer { output.removeAll() }
            return output.bytes
        }
    }

    private func pair(_ limits: TLSLimits = TLSLimits()) -> (caller: Side, called: Side) {
        (
            Side(Self.first, isInitiator: true, limits: limits),
            Side(Self.second, isInitiator: false, limits: limits)
        )
    }

    /// Lets both sides talk, in parts of `size` bytes, until none has more to say.
    private func shakeHands(_ caller: Side, _ called: Side, size: Int = .max) {
        var (toCalled, toCaller) = (caller.receive([]), [UInt8]())
        while !toCalled.isEmpty || !toCaller.isEmpty {
            let first = Array(toCalled.prefix(size))
            toCalled.removeFirst(first.count)
            toCaller += called.receive(first)
            let second = Array(toCaller.prefix(size))
            toCaller.removeFirst(second.count)
            toCalled += caller.receive(second)
        }
    }

    @Test(arguments: [1, 7, 100, Int.max])
    func bothSidesProveTheirKeys(size: Int) {
        let (caller, called) = pair()
        shakeHands(caller, called, size: size)
        #expect(caller.channel.peerKey == Self.second.publicKey)
        #expect(called.channel.peerKey == Self.first.publicKey)
        #expect(called.receive(caller.send([1, 2, 3])).isEmpty)
        #expect(called.content.bytes == [1, 2, 3])
        #expect(caller.receive(called.send([4])).isEmpty && caller.content.bytes == [4])
    }

    /// Content of more than one call's share, and of records that arrive in parts.
    @Test func largeContentArrivesInOrder() {
        let (caller, called) = pair()
        shakeHands(caller, called)
        var random = SystemRandomNumberGenerator()
        let content = (0..<3 << 20).map { _ in UInt8.random(in: 0...255, using: &random) }
        let sealed = caller.send(content)
        #expect(sealed.count > content.count)
        for start in stride(from: 0, to: sealed.count, by: 99_991) {
            _ = called.receive(Array(sealed[start..<min(start + 99_991, sealed.count)]))
        }
        #expect(called.content.bytes == content)
        #expect(called.reason == nil)
    }

    @Test func keysAreReplacedByBytesAndByRecords() {
        var byBytes = TLSLimits()
        byBytes.bytesOfKeyMax = 50_000
        var byRecords = TLSLimits()
        byRecords.recordsOfKeyMax = 3
        for limits in [byBytes, byRecords] {
            let (caller, called) = pair(limits)
            shakeHands(caller, called)
            for round in 0..<40 {
                let part = [UInt8](repeating: UInt8(round), count: 5_000)
                #expect(called.receive(caller.send(part)).isEmpty)
                #expect(caller.receive(called.send([UInt8(round)])).isEmpty)
            }
            #expect(called.content.count == 200_000 && caller.content.count == 40)
            #expect(caller.reason == nil && called.reason == nil)
        }
    }

    @Test func changedRepeatedAndMissingRecordsEndTheConnection() {
        for fault in 0..<3 {
            let (caller, called) = pair()
            shakeHands(caller, called)
            var (one, two) = (caller.send([1]), caller.send([2]))
            switch fault {
            case 0: one[one.count - 1] ^= 1
            case 1: two = one
            default: one = []
            }
            _ = called.receive(one)
            _ = called.receive(two)
            #expect(called.reason != nil, "\(fault)")
            #expect(!called.content.bytes.contains(2) || fault == 1)
        }
    }

    @Test func bytesOtherThanTLSAreRefusedWithReason() {
        for words in [
            "GET / HTTP/1.1\r\n\r\n", "DVNP\u{1}\u{0}\u{1}\u{0}\u{20}",
            "\u{16}\u{3}\u{1}\u{0}\u{5}hello",
        ] {
            let (_, called) = pair()
            _ = called.receive(Array(words.utf8))
            #expect(called.reason?.contains("TLS") == true, "\(words)")
            #expect(called.channel.peerKey == nil)
        }
    }

    /// Both sides sign a hash of the hello.
    ///
    /// The hash leaves out the header of its record, and no side reads the second byte of the
    /// version in that header (RFC 8446, section 5.1).
    @Test func changedByteOfClientHelloPreventsHandshake() {
        let ignored = 2
        for index in pair().caller.receive([]).indices {
            let (caller, called) = pair()
            var hello = caller.receive([])
            hello[index] ^= 0x40
            let answer = called.receive(hello)
            _ = called.receive(caller.receive(answer))
            let isPrevented = called.channel.peerKey == nil && caller.channel.peerKey == nil
            #expect(isPrevented == (index != ignored), "\(index)")
        }
    }
}
