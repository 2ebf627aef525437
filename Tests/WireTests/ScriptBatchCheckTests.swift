import Bytes
import Testing
import Wire

/// What a node accepts of a script process: only what its request allows.
@Suite struct ScriptBatchCheckTests {
    typealias Violation = ScriptBatchCheck.Violation

    private static let json = [UInt8]("1".utf8)

    static func replies(_ body: (ScriptReplyEncoder, ByteWriter) -> Void) -> [UInt8] {
        written { body(ScriptReplyEncoder(batch: 1, output: $0), $0) }
    }

    private static func row(
        _ encoder: ScriptReplyEncoder,
        _ items: [UInt32],
        key: [UInt8] = json,
        value: [UInt8] = json
    ) {
        let start = encoder.beginRows(function: 1)
        for item in items {
            key.withView { key in
                value.withView { encoder.appendRow(item: item, key: key, value: $0) }
            }
        }
        encoder.end(start)
    }

    private static func reduction(_ encoder: ScriptReplyEncoder, _ item: UInt32, _ count: Int) {
        let start = encoder.beginReductions(function: 1)
        [UInt8](repeating: 49, count: count).withView {
            encoder.appendReduction(item: item, value: $0)
        }
        encoder.end(start)
    }

    private static func problem(_ encoder: ScriptReplyEncoder, _ item: UInt32) {
        encoder.problem(
            function: 1,
            ScriptProblem(item: item, reason: .threw, line: 1, text: .empty)
        )
    }

    /// The first violation of a stream of replies; a text is JSON if it begins with a digit.
    private func check(
        _ purpose: ScriptBatch.Purpose = .map,
        functions: [UInt32] = [1],
        count: Int = 3,
        isFinished: Bool = true,
        _ body: (ScriptReplyEncoder) -> Void
    ) -> Violation? {
        ScriptBatchCheckTests.replies { encoder, _ in body(encoder) }.withView { view in
            var check = ScriptBatchCheck(purpose, functions: functions, count: count)
            var offset = 0
            while case .frame(let frame) = ScriptFrame.next(
                in: view.dropFirst(offset),
                bytesMax: ScriptLimits.replyBytesMax
            ) {
                offset += frame.byteCount
                guard let reply = ScriptReply(frame) else {
                    Issue.record("a malformed reply")
                    return nil
                }
                let violation = check.accept(reply) { !$0.isEmpty && $0[0] != UInt8(ascii: "x") }
                if let violation { return violation }
            }
            #expect(check.isFinished == isFinished)
            return nil
        }
    }

    @Test func completeRepliesToAMapBatchAreAccepted() {
        let violation = check(functions: [1, 2]) { encoder in
            encoder.executing(function: 1)
            ScriptBatchCheckTests.row(encoder, [0, 0, 2])
            ScriptBatchCheckTests.problem(encoder, 1)
            encoder.log(function: 1, dropped: 2, text: .empty)
            encoder.finished(function: 1)
            encoder.executing(function: 2)
            encoder.finished(function: 2)
        }
        #expect(violation == nil)
    }

    @Test func completeRepliesToAReduceBatchAreAccepted() {
        let violation = check(.reduce, count: 2) { encoder in
            encoder.executing(function: 1)
            ScriptBatchCheckTests.reduction(encoder, 1, ScriptLimits.reductionBytesMax)
            ScriptBatchCheckTests.problem(encoder, 0)
            encoder.finished(function: 1)
        }
        #expect(violation == nil)
    }

    @Test func itemOutsideTheBatchIsAViolation() {
        #expect(mapped { ScriptBatchCheckTests.row($0, [3]) } == .itemOutOfRange)
        #expect(mapped { ScriptBatchCheckTests.problem($0, 3) } == .itemOutOfRange)
    }

    @Test func secondResultForAnItemIsAViolation() {
        #expect(mapped { ScriptBatchCheckTests.row($0, [1, 0]) } == .itemAnsweredTwice)
        let rows = mapped { encoder in
            ScriptBatchCheckTests.row(encoder, [1])
            ScriptBatchCheckTests.row(encoder, [1])
        }
        #expect(rows == .itemAnsweredTwice)
        let both = mapped { encoder in
            ScriptBatchCheckTests.row(encoder, [1])
            ScriptBatchCheckTests.problem(encoder, 1)
        }
        #expect(both == .itemAnsweredTwice)
    }

    @Test func sizesAboveTheLimitsAreViolations() {
        let long = [UInt8](repeating: 49, count: ScriptLimits.keyBytesMax + 1)
        #expect(mapped { ScriptBatchCheckTests.row($0, [0], key: long) } == .keyTooLong)
        let large = [UInt8](repeating: 49, count: ScriptLimits.emittedBytesMax)
        #expect(mapped { ScriptBatchCheckTests.row($0, [0], value: large) } == .emittedTooMuch)
        let many = [UInt32](repeating: 0, count: ScriptLimits.rowsMax + 1)
        #expect(mapped { ScriptBatchCheckTests.row($0, many) } == .emittedTooMuch)
        let reduced = check(.reduce) { encoder in
            encoder.executing(function: 1)
            ScriptBatchCheckTests.reduction(encoder, 0, ScriptLimits.reductionBytesMax + 1)
        }
        #expect(reduced == .reductionTooLong)
    }

    @Test func textThatIsNotJSONIsAViolation() {
        #expect(mapped { ScriptBatchCheckTests.row($0, [0], key: [120]) } == .notJSON)
        #expect(mapped { ScriptBatchCheckTests.row($0, [0], value: []) } == .notJSON)
    }

    @Test func missingReductionIsAViolation() {
        let violation = check(.rereduce) { encoder in
            encoder.executing(function: 1)
            ScriptBatchCheckTests.reduction(encoder, 0, 1)
            encoder.finished(function: 1)
        }
        #expect(violation == .itemMissing)
    }

    @Test func repliesOutOfOrderAreViolations() {
        #expect(check { $0.finished(function: 1) } == .unexpectedReply)
        #expect(check { ScriptBatchCheckTests.row($0, [0]) } == .unexpectedReply)
        #expect(check { $0.executing(function: 2) } == .wrongFunction)
        #expect(mapped { $0.executing(function: 1) } == .unexpectedReply)
        #expect(mapped { $0.finished(function: 2) } == .wrongFunction)
        #expect(mapped { $0.ready(isFiltered: true) } == .unexpectedReply)
        #expect(mapped { ScriptBatchCheckTests.reduction($0, 0, 1) } == .unexpectedReply)
    }

    private func mapped(_ body: (ScriptReplyEncoder) -> Void) -> Violation? {
        check(isFinished: false) { encoder in
            encoder.executing(function: 1)
            body(encoder)
        }
    }
}
