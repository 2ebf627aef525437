import Bytes
import Simulation
import Testing
import Vocabulary
import Wire

/// What is said of who writes: each check is fed what it has to find, and what it has to let pass.
@Suite struct OneWriterTests {
    private let place = OneWriter.Place(bucket: "bucket", vBucket: VBucketID(3))
    private let old = VBucketUUID(1)
    private let new = VBucketUUID(2)

    private func token(_ uuid: VBucketUUID, _ seqno: UInt64) -> LateAnswers.Token {
        LateAnswers.Token(uuid: uuid, seqno: Seqno(seqno))
    }

    /// Answers as a node writes them, one behind the other.
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

    // MARK: What answers say

    /// A turn's answers are many, of all kinds: none hides those behind it.
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

    /// A counter's token has a value behind it.
    @Test func theTokenOfACounterIsRead() {
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
    func noCommandThatWritesIsMissed(_ opcode: Opcode) {
        let output = answers { stored(opcode, token(old, 5), to: $0) }
        #expect(LateAnswers.tokens(output.view) == [token(old, 5)])
    }

    /// A map that is sent unasked has the number of `set`, and extras as long as a token.
    @Test func whatIsNoAnswerHasNoToken() {
        let output = answers { writer in
            [UInt8]("bucket".utf8).withUnsafeBytes { bucket in
                ResponseEncoder.appendClusterMapChange(
                    to: writer,
                    epoch: 1,
                    revision: 5,
                    bucket: ByteView(bucket),
                    config: .empty
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

    /// What a turn began with is read, though it was cut off behind that.
    @Test func whatWasCutOffHidesNothingBeforeIt() {
        let output = answers { writer in
            stored(.set, token(old, 5), to: writer)
            stored(.set, token(old, 6), to: writer)
            writer.truncate(to: writer.count - 1)
        }
        #expect(LateAnswers.tokens(output.view) == [token(old, 5)])
    }

    // MARK: Who writes

    /// What came of a course, of one vBucket.
    private func flaws(_ course: (inout OneWriter, inout [String]) -> Void) -> [String] {
        var (writer, flaws) = (OneWriter(), [String]())
        course(&writer, &flaws)
        return flaws
    }

    private func tell(
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

    private func sayLate(_ tokens: [LateAnswers.Token], _ writer: inout OneWriter) {
        let output = answers { output in
            for token in tokens { stored(.set, token, to: output) }
        }
        writer.saidLate(output.view)
    }

    @Test func oneHistoryAfterTheOtherIsInOrder() {
        let found = flaws { writer, flaws in
            tell(token(old, 1), 0, 10, &writer, &flaws)
            tell(token(old, 2), 11, 20, &writer, &flaws)
            // Asked for at one time, and answered in any order.
            tell(token(old, 4), 21, 30, &writer, &flaws)
            tell(token(old, 3), 21, 31, &writer, &flaws)
            tell(token(new, 3), 32, 40, &writer, &flaws)
            // It was on its way when the new one began, and nobody said it late.
            tell(token(old, 5), 32, 41, &writer, &flaws)
        }
        #expect(found == [])
    }

    @Test func anOlderHistoryThatWasAskedLaterIsFound() {
        let found = flaws { writer, flaws in
            tell(token(old, 1), 0, 10, &writer, &flaws)
            tell(token(new, 1), 11, 20, &writer, &flaws)
            tell(token(old, 2), 21, 30, &writer, &flaws)
        }
        #expect(found.count == 1)
        // Durable or not: nobody takes a write for an older history.
        let durable = flaws { writer, flaws in
            tell(token(old, 1), 0, 10, &writer, &flaws)
            tell(token(new, 1), 11, 20, &writer, &flaws)
            tell(token(old, 2), 21, 30, isDurable: true, &writer, &flaws)
        }
        #expect(durable.count == 1)
    }

    @Test func aSeqnoThatFallsIsFound() {
        for seqno in [4, 5] as [UInt64] {
            let found = flaws { writer, flaws in
                tell(token(old, 5), 0, 10, &writer, &flaws)
                tell(token(old, seqno), 11, 20, &writer, &flaws)
            }
            #expect(found.count == 1)
        }
    }

    /// Asked for in time and said too late: a client must not hear of it.
    @Test func whatAStoppedNodeSaysAfterAnotherAcknowledgedIsFound() {
        let found = flaws { writer, flaws in
            tell(token(old, 1), 0, 10, &writer, &flaws)
            tell(token(new, 2), 11, 20, &writer, &flaws)
            sayLate([token(old, 2), token(old, 3)], &writer)
            tell(token(old, 3), 11, 30, &writer, &flaws)
            tell(token(old, 2), 11, 31, &writer, &flaws)
        }
        #expect(found.count == 2)
    }

    @Test func whatIsSaidLateAndHoldsIsLetPass() {
        // Nobody else has acknowledged when it is said; or it is the newest history that says it.
        let inTime = flaws { writer, flaws in
            tell(token(old, 1), 0, 10, &writer, &flaws)
            sayLate([token(old, 2)], &writer)
            tell(token(new, 2), 11, 20, &writer, &flaws)
            tell(token(old, 2), 11, 21, &writer, &flaws)
            sayLate([token(new, 3)], &writer)
            tell(token(new, 3), 21, 30, &writer, &flaws)
        }
        #expect(inTime == [])
        let durable = flaws { writer, flaws in
            tell(token(old, 1), 0, 10, &writer, &flaws)
            tell(token(new, 2), 11, 20, &writer, &flaws)
            sayLate([token(old, 2)], &writer)
            tell(token(old, 2), 11, 30, isDurable: true, &writer, &flaws)
        }
        #expect(durable == [])
    }
}
