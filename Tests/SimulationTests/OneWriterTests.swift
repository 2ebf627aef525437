import Bytes
import Simulation
import Testing
import Vocabulary
import Wire

/// The check of one writer, with input that it must find and input that it must accept.
@Suite struct OneWriterTests {
    private let place = OneWriter.Place(bucket: "bucket", vBucket: VBucketID(3))
    private let old = VBucketUUID(1)
    private let new = VBucketUUID(2)

    private func token(_ uuid: VBucketUUID, _ seqno: UInt64) -> LateAnswers.Token {
        LateAnswers.Token(uuid: uuid, seqno: Seqno(seqno))
    }

    /// Consecutive responses, as a node writes them.
    private func answers(_ write: (ByteWriter) -> Void) -> ByteWriter {
        let writer = ByteWriter()
        write(writer)
        return writer
    }

    private func stored(
        _ opcode: Opcode,
        _ token: LateAnswers.Token,
        duration: ServerDuration? = nil,
        to writer: ByteWriter
    ) {
        ResponseEncoder.appendMutation(
            to: writer,
            replyTo: ReplyTo(opcode, opaque: 7),
            cas: CAS(9),
            uuid: token.uuid,
            seqno: token.seqno,
            duration: duration
        )
    }

    /// The bytes of a token, as extras.
    private func extras(_ token: LateAnswers.Token) -> [UInt8] {
        [token.uuid.value, token.seqno.value].flatMap { number in
            (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
        }
    }

    // MARK: Tokens of responses

    /// A turn has many responses of all kinds: none hides the following ones.
    @Test func everyTokenOfATurnIsRead() {
        let output = answers { writer in
            ResponseEncoder.append(
                .keyNotFound,
                to: writer,
                replyTo: ReplyTo(.get, opaque: 1)
            )
            stored(.set, token(old, 5), to: writer)
            [UInt8]("a document".utf8).withUnsafeBytes { value in
                ResponseEncoder.appendDocument(
                    to: writer,
                    replyTo: ReplyTo(.get, opaque: 2),
                    datatype: [],
                    cas: CAS(4),
                    flags: 0,
                    value: ByteView(value)
                )
            }
            stored(.delete, token(old, 6), duration: ServerDuration(microseconds: 12), to: writer)
            ResponseEncoder.append(.keyExists, to: writer, replyTo: ReplyTo(.add, opaque: 3))
            stored(.add, token(new, 1), to: writer)
        }
        #expect(LateAnswers.tokens(output.view) == [token(old, 5), token(old, 6), token(new, 1)])
    }

    /// A counter's token is followed by a value.
    @Test func tokenOfACounterIsRead() {
        let output = answers { writer in
            extras(token(old, 5)).withUnsafeBytes { extras in
                [UInt8](repeating: 1, count: 8).withUnsafeBytes { value in
                    ResponseEncoder.append(
                        .success,
                        to: writer,
                        replyTo: ReplyTo(.increment, opaque: 1),
                        extras: ByteView(extras),
                        value: ByteView(value)
                    )
                }
            }
        }
        #expect(LateAnswers.tokens(output.view) == [token(old, 5)])
    }

    @Test(arguments: [
        Opcode.set, .add, .replace, .delete, .increment, .decrement, .append, .prepend, .touch,
        .setWithMeta, .addWithMeta, .deleteWithMeta, .subdocCounter, .subdocMultiMutation,
    ])
    func tokenOfEveryWritingCommandIsRead(_ opcode: Opcode) {
        let output = answers { stored(opcode, token(old, 5), to: $0) }
        #expect(LateAnswers.tokens(output.view) == [token(old, 5)])
    }

    /// A pushed map has the opcode of `set`, and extras as long as a token.
    @Test func pushedMapHasNoToken() {
        let output = answers { writer in
            [UInt8]("bucket".utf8).withUnsafeBytes { bucket in
                ResponseEncoder.appendClusterMapChange(
                    to: writer,
                    version: (1, 5),
                    bucket: ByteView(bucket),
                    config: .empty,
                    datatype: []
                )
            }
            extras(token(old, 5)).withUnsafeBytes { extras in
                ResponseEncoder.append(
                    .temporaryFailure,
                    to: writer,
                    replyTo: ReplyTo(.set, opaque: 1),
                    extras: ByteView(extras),
                    value: .empty
                )
            }
        }
        #expect(LateAnswers.tokens(output.view) == [])
    }

    /// The complete responses before a truncated one are read.
    @Test func truncatedResponseDoesNotHideEarlierTokens() {
        let output = answers { writer in
            stored(.set, token(old, 5), to: writer)
            stored(.set, token(old, 6), to: writer)
            writer.truncate(to: writer.count - 1)
        }
        #expect(LateAnswers.tokens(output.view) == [token(old, 5)])
    }

    // MARK: One writer

    /// The flaws of a sequence of acknowledgements of one vBucket.
    private func flaws(_ course: (inout OneWriter, inout [String]) -> Void) -> [String] {
        var (writer, flaws) = (OneWriter(), [String]())
        course(&writer, &flaws)
        return flaws
    }

    private func record(
        _ token: LateAnswers.Token,
        _ sentAt: UInt64,
        _ now: UInt64,
        isDurable: Bool = false,
        _ writer: inout OneWriter,
        _ flaws: inout [String]
    ) {
        flaws += writer.acknowledged(
            token,
            in: place,
            isDurable: isDurable,
            sentAt: sentAt,
            now: now
        )
    }

    private func recordLate(_ tokens: [LateAnswers.Token], _ writer: inout OneWriter) {
        let output = answers { output in
            for token in tokens { stored(.set, token, to: output) }
        }
        writer.recordLateOutput(output.view)
    }

    @Test func consecutiveHistoriesAreAccepted() {
        let found = flaws { writer, flaws in
            record(token(old, 1), 0, 10, &writer, &flaws)
            record(token(old, 2), 11, 20, &writer, &flaws)
            // Requests sent at one time may be acknowledged in any order.
            record(token(old, 4), 21, 30, &writer, &flaws)
            record(token(old, 3), 21, 31, &writer, &flaws)
            record(token(new, 3), 32, 40, &writer, &flaws)
            // The response was in transit when the new history began, and was not made late.
            record(token(old, 5), 32, 41, &writer, &flaws)
        }
        #expect(found == [])
    }

    @Test func laterWriteInAnOlderHistoryIsFound() {
        let found = flaws { writer, flaws in
            record(token(old, 1), 0, 10, &writer, &flaws)
            record(token(new, 1), 11, 20, &writer, &flaws)
            record(token(old, 2), 21, 30, &writer, &flaws)
        }
        #expect(found.count == 1)
        // Durable or not: no later write may be in an older history.
        let durable = flaws { writer, flaws in
            record(token(old, 1), 0, 10, &writer, &flaws)
            record(token(new, 1), 11, 20, &writer, &flaws)
            record(token(old, 2), 21, 30, isDurable: true, &writer, &flaws)
        }
        #expect(durable.count == 1)
    }

    @Test func decreasingSeqnoIsFound() {
        for seqno in [4, 5] as [UInt64] {
            let found = flaws { writer, flaws in
                record(token(old, 5), 0, 10, &writer, &flaws)
                record(token(old, seqno), 11, 20, &writer, &flaws)
            }
            #expect(found.count == 1)
        }
    }

    /// Requested in time but acknowledged too late: the client must not receive it.
    @Test func lateAcknowledgementOfAnOlderHistoryIsFound() {
        let found = flaws { writer, flaws in
            record(token(old, 1), 0, 10, &writer, &flaws)
            record(token(new, 2), 11, 20, &writer, &flaws)
            recordLate([token(old, 2), token(old, 3)], &writer)
            record(token(old, 3), 11, 30, &writer, &flaws)
            record(token(old, 2), 11, 31, &writer, &flaws)
        }
        #expect(found.count == 2)
    }

    @Test func lateAcknowledgementOfADurableWriteIsAccepted() {
        // No newer history has acknowledged before, or the acknowledgement is of the newest
        // history.
        let inTime = flaws { writer, flaws in
            record(token(old, 1), 0, 10, &writer, &flaws)
            recordLate([token(old, 2)], &writer)
            record(token(new, 2), 11, 20, &writer, &flaws)
            record(token(old, 2), 11, 21, &writer, &flaws)
            recordLate([token(new, 3)], &writer)
            record(token(new, 3), 21, 30, &writer, &flaws)
        }
        #expect(inTime == [])
        let durable = flaws { writer, flaws in
            record(token(old, 1), 0, 10, &writer, &flaws)
            record(token(new, 2), 11, 20, &writer, &flaws)
            recordLate([token(old, 2)], &writer)
            record(token(old, 2), 11, 30, isDurable: true, &writer, &flaws)
        }
        #expect(durable == [])
    }
}
