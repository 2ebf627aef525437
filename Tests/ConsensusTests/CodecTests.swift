import Bytes
import Consensus
import Testing
import Vocabulary

/// Encoding and decoding of messages.
@Suite struct CodecTests {
    private func encoded(_ message: Message) -> [UInt8] {
        let writer = ByteWriter()
        MessageCodec.append(message, to: writer)
        return writer.bytes
    }

    private func decoded(_ bytes: [UInt8]) throws(MessageDecodingError) -> Message {
        let writer = ByteWriter()
        writer.append(bytes)
        return try MessageCodec.decode(writer.view)
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
        for message in try samples() { #expect(try decoded(encoded(message)) == message) }
    }

    @Test func prefixOfAMessageIsCutShort() throws {
        for message in try samples() {
            let bytes = encoded(message)
            for length in 0..<bytes.count {
                #expect(throws: MessageDecodingError.cutShort) {
                    try decoded(Array(bytes.prefix(length)))
                }
            }
        }
    }

    @Test func unknownFieldsAtTheEndOfMessageAreSkipped() throws {
        for message in try samples() {
            #expect(try decoded(encoded(message) + [0, 0xff, 7]) == message)
        }
    }

    /// A node that stored less than the leader sent would have another log.
    @Test func unknownFieldsAtTheEndOfLogEntryAreRefused() throws {
        let writer = ByteWriter()
        MessageCodec.append(LogEntry(term: 1, index: 2, payload: .command([3])), to: writer)
        writer.append(UInt8(0))
        #expect(throws: MessageDecodingError.bytesLeftOver(1)) {
            _ = try writer.bytes.withUnsafeBytes { try MessageCodec.decodeEntry(ByteView($0)) }
        }
    }

    @Test func unknownVersionOrKindIsReported() {
        #expect(throws: MessageDecodingError.unknownVersion(2)) { try decoded([2, 1]) }
        #expect(throws: MessageDecodingError.unknownKind(99)) { try decoded([1, 99]) }
    }

    /// A count of a billion entries in a message of a few bytes must not reserve memory for them.
    @Test func countBeyondTheRemainingBytesIsCutShort() {
        let writer = ByteWriter()
        writer.append([1, 3, 0, 1, 0, 2, 5, 0, 0, 0])
        LEB128.append(1 << 30, to: writer)
        #expect(throws: MessageDecodingError.cutShort) { try decoded(writer.bytes) }
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
        #expect(throws: MessageDecodingError.malformed) { try decoded(encoded(message)) }
    }

    /// If damaged bytes decode, the message must survive another encoding and decoding.
    @Test func damagedBytesAreRefusedOrDecodeToAConsistentMessage() throws {
        var dice = SeededRandom(seed: 7)
        let originals = try samples().map { encoded($0) }
        var refused = 0
        for round in 0..<60_000 {
            var bytes = originals[round % originals.count]
            for _ in 0...Int(dice.next() % 3) {
                let place = Int(dice.next() % UInt64(bytes.count))
                bytes[place] = UInt8(truncatingIfNeeded: dice.next())
            }
            do throws(MessageDecodingError) {
                let message = try decoded(bytes)
                #expect(try decoded(encoded(message)) == message)
            } catch {
                refused += 1
            }
        }
        #expect(refused > 1_000)
    }

    @Test func randomBytesDoNotCrashTheDecoder() {
        var dice = SeededRandom(seed: 8)
        for _ in 0..<60_000 {
            let length = Int(dice.next() % 40)
            var bytes: [UInt8] = [1, UInt8(1 + dice.next() % 12)]
            for _ in 0..<length { bytes.append(UInt8(truncatingIfNeeded: dice.next())) }
            _ = try? decoded(bytes)
        }
    }
}
