import Bytes
import Consensus
import Testing
import Vocabulary

/// Encoding and decoding of messages.
@Suite struct CodecTests {
    private func decoded(_ bytes: [UInt8]) throws(CodingFailure) -> Message {
        try Message(decoding: bytes, skipsRest: true)
    }

    /// Why bytes are refused, and the refused field; nil if they are a message.
    private func refusal(_ bytes: [UInt8]) -> (reason: CodingFailure.Reason, field: String)? {
        do throws(CodingFailure) {
            _ = try decoded(bytes)
            return nil
        } catch {
            return (error.reason, error.field)
        }
    }

    private func samples() throws -> [Message] {
        let (one, two) = (NodeNumber(1), NodeNumber(700))
        let joint = try VoterConfiguration(voters: [one, two], learners: [NodeNumber(3)]).applying(
            ConfigurationChange([.addLearner(two), .addVoter(NodeNumber(9))])
        )
        let last = LogPosition(term: 3, index: 1 << 40)
        let entries = [
            LogEntry(term: 3, index: 8, payload: .empty),
            LogEntry(term: 4, index: 9, payload: .command([0, 255, 7])),
            LogEntry(term: 4, index: 10, payload: .configuration(joint)),
            LogEntry(term: 4, index: 11, payload: .command([])),
        ]
        let previous = LogPosition(term: 2, index: 7)
        let bodies: [Message.Body] = [
            .voteRequest(.init(last: last, isPreVote: true)),
            .voteRequest(.init(last: last, isTransfer: true)),
            .voteResponse(.init(isGranted: true)), .voteResponse(.init(isGranted: false)),
            .append(.init(previous: previous, entries: entries, commit: 6)),
            .append(.init(previous: .zero, entries: [], commit: 0)),
            .appendResponse(.accepted(received: 1 << 33, acknowledged: 5)),
            .appendResponse(.rejected(previous: 9, hint: previous)),
            .heartbeat(.init(commit: 4, round: .max)), .heartbeatResponse(round: 17),
            .snapshot(.init(position: last, configuration: joint)), .timeoutNow,
            .readRequest(context: 3), .readResponse(context: 3, index: 99), .newerTerm,
        ]
        return bodies.map { Message(from: one, to: two, term: 300, body: $0) }
    }

    @Test func encodedMessageDecodesToAnEqualOne() throws {
        for message in try samples() { #expect(try decoded(message.encoded) == message) }
    }

    @Test func prefixOfAMessageIsCutShort() throws {
        for message in try samples() {
            let bytes = message.encoded
            for length in 0..<bytes.count {
                #expect(refusal(Array(bytes.prefix(length)))?.reason == .cutShort)
            }
        }
    }

    @Test func unknownFieldsAtTheEndOfMessageAreSkipped() throws {
        for message in try samples() {
            #expect(try decoded(message.encoded + [0, 0xff, 7]) == message)
        }
    }

    /// A node that stored less than the leader sent would have another log.
    @Test func unknownFieldsAtTheEndOfLogEntryAreRefused() throws {
        let entry = LogEntry(term: 1, index: 2, payload: .command([3]))
        #expect(try LogEntry(decoding: entry.encoded) == entry)
        #expect(throws: CodingFailure.self) { try LogEntry(decoding: entry.encoded + [0]) }
    }

    @Test func unknownVersionOrKindIsReported() {
        let version = refusal([2, 1, 0, 1, 0, 2, 5])
        #expect(version?.reason == .invalid)
        #expect(version?.field == "version of the message")
        let kind = refusal([1, 99, 0, 1, 0, 2, 5])
        #expect(kind?.reason == .unknownKind(99))
        #expect(kind?.field == "kind of the message")
    }

    /// A count of a billion entries in a message of a few bytes must not reserve memory for them.
    @Test func countBeyondTheRemainingBytesIsCutShort() {
        let writer = ByteWriter()
        writer.append([1, 3, 0, 1, 0, 2, 5, 0, 0, 0])
        LEB128.append(1 << 30, to: writer)
        #expect(refusal(writer.bytes)?.reason == .cutShort)
    }

    @Test func appendWithAGapInItsEntriesIsMalformed() {
        let entries = [
            LogEntry(term: 1, index: 8, payload: .empty),
            LogEntry(term: 1, index: 10, payload: .empty),
        ]
        let append = Message.Append(
            previous: LogPosition(term: 1, index: 7),
            entries: entries,
            commit: 0
        )
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        let message = Message(from: one, to: two, term: 1, body: .append(append))
        #expect(refusal(message.encoded)?.reason == .invalid)
    }

    /// If damaged bytes decode, the message must survive another encoding and decoding.
    @Test func damagedBytesAreRefusedOrDecodeToAConsistentMessage() throws {
        var dice = SeededRandom(seed: 7)
        let originals = try samples().map(\.encoded)
        var refused = 0
        for round in 0..<60_000 {
            var bytes = originals[round % originals.count]
            for _ in 0...Int(dice.next() % 3) {
                let place = Int(dice.next() % UInt64(bytes.count))
                bytes[place] = UInt8(truncatingIfNeeded: dice.next())
            }
            do throws(CodingFailure) {
                let message = try decoded(bytes)
                #expect(try decoded(message.encoded) == message)
            } catch {
                refused += 1
            }
        }
        #expect(refused > 1_000)
    }

    @Test func randomBytesAreRefusedOrDecodeToAConsistentMessage() throws {
        var dice = SeededRandom(seed: 8)
        var accepted: Set<UInt8> = []
        for _ in 0..<60_000 {
            let length = Int(dice.next() % 40)
            var bytes: [UInt8] = [1, UInt8(1 + dice.next() % 12)]
            for _ in 0..<length { bytes.append(UInt8(truncatingIfNeeded: dice.next())) }
            guard refusal(bytes) == nil else { continue }
            let message = try decoded(bytes)
            #expect(try decoded(message.encoded) == message)
            accepted.insert(bytes[1])
        }
        // A snapshot has a voter configuration, which is improbable in random bytes.
        let snapshot: UInt8 = 8
        #expect(accepted.union([snapshot]) == Set(1...12))
    }
}
