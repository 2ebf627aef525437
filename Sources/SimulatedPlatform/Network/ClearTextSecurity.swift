internal import Bytes
package import Seams

/// The security of simulated connections: each side sends its public key, then clear text.
///
/// It gives what the users of `SecureChannel` rely on: a key that the other side has, and content of
/// the side that has it. A simulated process has only its own key pair, so it cannot prove another's.
package struct ClearTextSecurity: TransportSecurity {
    package init() {}

    package func identity(of keys: KeyPair) -> any SecurityIdentity {
        ClearTextIdentity(keys: keys)
    }
}

private struct ClearTextIdentity: SecurityIdentity {
    let keys: KeyPair

    func makeChannel(isInitiator: Bool) -> any SecureChannel { ClearTextChannel(keys) }
}

private final class ClearTextChannel: SecureChannel {
    private static let mark = Array("CLEARTXT".utf8)

    private(set) var peerKey: [UInt8]?
    var isOpen: Bool { peerKey != nil }
    private let keys: KeyPair
    private var hasIntroduced = false

    init(_ keys: KeyPair) {
        self.keys = keys
    }

    func receive(_ input: ByteView, content: ByteWriter, output: ByteWriter) -> SecureProgress {
        if !hasIntroduced {
            hasIntroduced = true
            output.append(Self.mark)
            output.append(keys.publicKey)
        }
        guard peerKey == nil else {
            content.append(input)
            return SecureProgress(consumed: input.count, next: .receive)
        }
        let count = Self.mark.count + KeyPair.byteCount
        let known = input.slice(0, min(input.count, Self.mark.count)).bytes
        guard Self.mark.starts(with: known) else {
            return SecureProgress(consumed: 0, next: .close("it does not introduce itself"))
        }
        guard input.count >= count else { return SecureProgress(consumed: 0, next: .receive) }
        peerKey = input.slice(Self.mark.count, KeyPair.byteCount).bytes
        return SecureProgress(consumed: count, next: .more)
    }

    func send(_ content: ByteView, output: ByteWriter) -> Bool {
        precondition(isOpen, "content is sent after the handshake")
        output.append(content)
        return true
    }
}
