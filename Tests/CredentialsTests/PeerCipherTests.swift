import Bytes
import Credentials
import Testing

/// Records between nodes open only whole, in order, once, and at the receiver.
@Suite struct PeerCipherTests {
    private func ciphers() throws -> (PeerCipher, PeerCipher) {
        try #require(PeerPair().establish())
    }

    private func sealed(_ content: [UInt8], _ cipher: inout PeerCipher) -> [UInt8] {
        let writer = ByteWriter()
        content.withView { cipher.seal($0, to: writer) }
        return writer.bytes
    }

    /// The content of a stream of records; nil if a record does not open.
    private func opened(_ stream: [UInt8], _ cipher: inout PeerCipher) -> [UInt8]? {
        var rest = stream
        var content: [UInt8] = []
        while !rest.isEmpty {
            let opening = rest.withView { view in cipher.open(view) { content += $0.bytes } }
            guard case .opened(let count) = opening else { return nil }
            rest.removeFirst(count)
        }
        return content
    }

    @Test func contentOfAnySizeIsSealedAndOpened() throws {
        var (one, other) = try ciphers()
        let most = PeerCipher.recordBytesMax
        for size in [1, 2, 15, 16, 17, 1_000, most - 1, most, most + 1, 3 * most + 5] {
            let content = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ size) }
            let stream = sealed(content, &one)
            let records = (size + most - 1) / most
            #expect(stream.count == size + records * 20)
            #expect(opened(stream, &other) == content)
            // The other direction, with its own key.
            #expect(opened(sealed(content, &other), &one) == content)
        }
        #expect(sealed([], &one).isEmpty)
    }

    @Test func incompleteRecordReportsTheBytesItNeeds() throws {
        var (one, other) = try ciphers()
        let record = sealed([1, 2, 3], &one)
        for count in 0..<record.count {
            let opening = Array(record[..<count]).withView { view in other.open(view) { _ in } }
            guard case .incomplete(let needed) = opening else {
                Issue.record("\(count) bytes opened")
                return
            }
            #expect(needed == (count < 4 ? 4 : record.count))
        }
        #expect(opened(record, &other) == [1, 2, 3])
    }

    @Test func recordOpensOnceInOrderAndNotAtItsSender() throws {
        var (one, other) = try ciphers()
        let first = sealed([1], &one)
        let second = sealed([2], &one)
        var skipping = other
        #expect(opened(second, &skipping) == nil)
        var reflecting = one
        #expect(opened(first, &reflecting) == nil)
        #expect(opened(first, &other) == [1])
        var replaying = other
        #expect(opened(first, &replaying) == nil)
        #expect(opened(second, &other) == [2])
    }

    @Test func recordWithAChangedBitDoesNotOpen() throws {
        var (one, other) = try ciphers()
        let record = sealed([UInt8](repeating: 8, count: 40), &one)
        for place in record.indices {
            for bit in 0..<8 {
                var changed = record
                changed[place] ^= 1 << UInt8(bit)
                var opening = other
                var content: [UInt8] = []
                let outcome = changed.withView { opening.open($0) { content += $0.bytes } }
                if case .opened = outcome { Issue.record("byte \(place), bit \(bit)") }
                #expect(content.isEmpty)
            }
        }
        #expect(opened(record, &other)?.count == 40)
    }

    @Test func invalidRecordLengthIsRefusedBeforeTheContentArrives() throws {
        var (_, other) = try ciphers()
        let most = UInt32(PeerCipher.recordBytesMax + 16)
        for (length, isBroken) in [
            (0, true), (16, true), (17, false), (most, false), (most + 1, true),
        ] {
            let header = withUnsafeBytes(of: UInt32(length).bigEndian) { [UInt8]($0) }
            let outcome = header.withView { view in other.open(view) { _ in } }
            if case .broken = outcome { #expect(isBroken) } else { #expect(!isBroken) }
        }
    }

    @Test func randomRecordsDoNotOpen() throws {
        var random = SeededRandom(seed: 9)
        var (_, other) = try ciphers()
        for _ in 0..<2_000 {
            let count = Int.random(in: 17...200, using: &random)
            var bytes = withUnsafeBytes(of: UInt32(count).bigEndian) { [UInt8]($0) }
            bytes += (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            #expect(opened(bytes, &other) == nil)
        }
    }
}
