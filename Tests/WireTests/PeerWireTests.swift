import Bytes
import Testing
import Vocabulary
import Wire

/// Encoding and decoding of handshake messages between nodes.
@Suite struct PeerWireTests {
    private static let claim = PeerClaim(
        node: NodeNumber(7),
        nodeUUID: "abc",
        clusterUUID: "a cluster".replacing(" ", with: "-"),
        group: 1 << 60,
        epoch: 4
    )

    private static let messages: [PeerGreeting] = [
        .hello(.init(service: 200, expected: NodeNumber(3), claim: claim)),
        .answer(claim),
        .refusal(.init(reason: 3, detail: .max - 1)),
    ]

    private static func bytes(_ message: PeerGreeting, version: UInt16 = 1) -> [UInt8] {
        written { message.append(version: version, to: $0) }
    }

    @Test func encodedGreetingsDecodeToTheSameGreeting() {
        for message in PeerWireTests.messages {
            let bytes = PeerWireTests.bytes(message)
            #expect(bytes.count <= PeerGreeting.bytesMax)
            for count in 0..<bytes.count {
                Array(bytes[..<count]).withView { view in
                    guard case .incomplete(let needed) = PeerGreeting.next(in: view, version: 1)
                    else {
                        Issue.record("a truncated greeting must be incomplete")
                        return
                    }
                    #expect(needed == (count < 9 ? 9 : bytes.count))
                }
            }
            (bytes + [1, 2]).withView { view in
                guard case .message(let read, let count) = PeerGreeting.next(in: view, version: 1)
                else {
                    Issue.record("the greeting was rejected")
                    return
                }
                #expect(read == message && count == bytes.count)
            }
        }
    }

    /// A hello of a later release: its claim, and the message itself, end with unknown fields.
    @Test func unknownFieldsOfGreetingAreSkipped() {
        let hello = PeerWireTests.bytes(PeerWireTests.messages[0])
        // The claim's length follows service and expected node; 2 + 1 + 3 + 1 + 9 + 8 + 8 + 2 bytes.
        #expect(Array(hello[12...13]) == [0, 34])
        var later = hello
        later[13] += 3
        later.insert(contentsOf: [7, 8, 9], at: 14 + 34)
        later += [1, 2]
        let length = UInt16(hello[7]) << 8 + UInt16(hello[8]) + 5
        later.replaceSubrange(7...8, with: [UInt8(length >> 8), UInt8(truncatingIfNeeded: length)])
        later.withView { view in
            guard case .message(let read, let count) = PeerGreeting.next(in: view, version: 1)
            else {
                Issue.record("a later hello is understood")
                return
            }
            #expect(read == PeerWireTests.messages[0] && count == later.count)
        }
        // A claim that ends beyond its message.
        later[12] = 1
        later.withView { view in
            guard case .invalid = PeerGreeting.next(in: view, version: 1) else {
                Issue.record("the length is checked")
                return
            }
        }
    }

    @Test func greetingOfAnotherVersionIsDetectedFromItsHeader() {
        for message in PeerWireTests.messages {
            let bytes = Array(PeerWireTests.bytes(message, version: 2).prefix(9))
            bytes.withView { view in
                switch (PeerGreeting.next(in: view, version: 1), message) {
                case (.otherVersion(2), .hello), (.otherVersion(2), .answer),
                    (.incomplete, .refusal):
                    break
                default: Issue.record("\(message) of version 2")
                }
            }
        }
    }

    /// Any bytes give an outcome, and names with blanks or line ends are rejected.
    @Test func mutatedGreetingsNeverCrashAndNamesStayPrintable() {
        var random = SeededRandom(seed: 4)
        for round in 0..<20_000 {
            var bytes = PeerWireTests.bytes(PeerWireTests.messages[round % 3])
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                bytes[place] = UInt8.random(in: 0...255, using: &random)
            }
            bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random) / 4)
            bytes.withView { view in
                guard
                    case .message(let message, let count) = PeerGreeting.next(in: view, version: 1)
                else { return }
                #expect(count <= view.count)
                guard case .hello(let hello) = message else { return }
                let isPlain = hello.claim.nodeUUID.utf8.allSatisfy { (0x21...0x7e).contains($0) }
                #expect(isPlain)
            }
        }
    }
}
