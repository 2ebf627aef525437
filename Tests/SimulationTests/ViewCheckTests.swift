import Bytes
import Seams
import SimulatedPlatform
import Simulation
import Testing
import Wire

/// The checker of view answers, against answers with planted violations.
@Suite struct ViewCheckTests {
    private static func view(_ map: ViewFunction, _ reduce: SimulatedView.Reduce? = nil)
        -> SimulatedView
    {
        SimulatedView(document: "d", name: "v", map: map, reduce: reduce)
    }

    private static func question(
        _ map: ViewFunction,
        _ reduce: SimulatedView.Reduce? = nil,
        _ grouping: ViewQuestion.Grouping = .none
    ) -> ViewQuestion {
        var question = ViewQuestion(bucket: "b", view: view(map, reduce), isFresh: true)
        question.grouping = grouping
        return question
    }

    /// What a right node answers if each document has the given value.
    private func rows(_ documents: [(String, String)], _ question: ViewQuestion) -> [ViewAnswer.Row]
    {
        documents.flatMap { id, text in
            question.rows(id: id, text: text).map { ViewAnswer.Row(id: id, $0) }
        }
    }

    // MARK: Rows

    private let two = ViewExpectation(["a": ["1.1"], "b": ["1.2", "1.3", nil]])

    @Test(arguments: [[("a", "1.1"), ("b", "1.2")], [("a", "1.1"), ("b", "1.3")], [("a", "1.1")]])
    func answerOfAnAllowedChoiceIsRight(_ documents: [(String, String)]) {
        let question = Self.question(.identity)
        let answer = ViewAnswer(rows: rows(documents, question))
        #expect(two.flaw(in: answer, to: question) == nil)
    }

    @Test(arguments: [
        // A missing row, an old value, a document that was never written, both values of one document.
        [("b", "1.2")], [("a", "1.0"), ("b", "1.2")], [("a", "1.1"), ("c", "1.1")],
        [("a", "1.1"), ("b", "1.2"), ("b", "1.3")], [("a", "1.1"), ("a", "1.1")],
    ])
    func answerOfNoAllowedChoiceIsAFlaw(_ documents: [(String, String)]) {
        let question = Self.question(.identity)
        let answer = ViewAnswer(rows: rows(documents, question))
        #expect(two.flaw(in: answer, to: question) != nil)
    }

    @Test func rowsOutOfOrderAreAFlaw() {
        var question = Self.question(.identity)
        let answer = ViewAnswer(rows: rows([("b", "1.2"), ("a", "1.1")], question))
        #expect(two.flaw(in: answer, to: question) != nil)
        question.isDescending = true
        #expect(two.flaw(in: answer, to: question) == nil)
    }

    @Test func rowsBehindTheLimitAreNotExpected() {
        var question = Self.question(.identity)
        question.limit = 1
        #expect(two.flaw(in: ViewAnswer(rows: rows([("a", "1.1")], question)), to: question) == nil)
        // `a` is before `b`.
        #expect(two.flaw(in: ViewAnswer(rows: rows([("b", "1.2")], question)), to: question) != nil)
        let many = ViewAnswer(rows: rows([("a", "1.1"), ("b", "1.2")], question))
        #expect(two.flaw(in: many, to: question) != nil)
    }

    @Test func rowsOutsideTheRangeAreAFlaw() {
        var question = Self.question(.identity)
        let all = ViewAnswer(rows: rows([("a", "1.1"), ("b", "1.2")], question))
        question.range = .text("a")...(.text("aa"))
        #expect(two.flaw(in: all, to: question) != nil)
        #expect(two.flaw(in: ViewAnswer(rows: rows([("a", "1.1")], question)), to: question) == nil)
    }

    /// A document whose rows are those of two of its values.
    @Test func rowsOfAnOldValueBesideTheNewOnesAreAFlaw() {
        let question = Self.question(.several)
        let expectation = ViewExpectation(["a": ["0.2", "0.5"]])
        let new = rows([("a", "0.5")], question)
        #expect(new.count == 5)
        #expect(expectation.flaw(in: ViewAnswer(rows: new), to: question) == nil)
        #expect(expectation.flaw(in: ViewAnswer(rows: Array(new.dropLast())), to: question) != nil)
        #expect(expectation.flaw(in: ViewAnswer(rows: new + new.suffix(1)), to: question) != nil)
    }

    // MARK: Groups

    private func group(_ key: ViewKey, _ value: Int) -> ViewAnswer.Row {
        ViewAnswer.Row(id: "", ViewRow(key, value))
    }

    /// Values 0.1 to 0.6 are the numbers 1 to 6; their groups are the numbers modulo 5.
    private let four = ViewExpectation([
        "a": ["0.1"], "b": ["0.6"], "c": ["0.2"], "d": ["0.1", nil],
    ])

    @Test(arguments: [
        (SimulatedView.Reduce.count, [2, 1]), (.count, [3, 1]), (.sum, [7, 2]), (.sum, [8, 2]),
        (.largest, [6, 2]),
    ])
    func groupsWithinBoundsAreRight(_ reduce: SimulatedView.Reduce, _ values: [Int]) {
        let question = Self.question(.grouped, reduce, .first)
        let answer = ViewAnswer(rows: [group(.list([1]), values[0]), group(.list([2]), values[1])])
        #expect(four.flaw(in: answer, to: question) == nil)
    }

    @Test(arguments: [
        (SimulatedView.Reduce.count, [4, 1]), (.count, [1, 1]), (.sum, [6, 2]), (.sum, [9, 2]),
        (.sum, [7, 3]), (.largest, [7, 2]), (.largest, [1, 2]),
    ])
    func groupsBeyondBoundsAreAFlaw(_ reduce: SimulatedView.Reduce, _ values: [Int]) {
        let question = Self.question(.grouped, reduce, .first)
        let answer = ViewAnswer(rows: [group(.list([1]), values[0]), group(.list([2]), values[1])])
        #expect(four.flaw(in: answer, to: question) != nil)
    }

    @Test func missingSurplusDoubledAndUnorderedGroupsAreFlaws() {
        let question = Self.question(.grouped, .count, .first)
        let (one, two) = (group(.list([1]), 2), group(.list([2]), 1))
        for rows in [[one], [one, two, group(.list([3]), 1)], [one, one, two], [two, one]] {
            #expect(four.flaw(in: ViewAnswer(rows: rows), to: question) != nil)
        }
        let all = Self.question(.grouped, .sum, .all)
        #expect(four.flaw(in: ViewAnswer(rows: [group(.null, 10)]), to: all) == nil)
        #expect(four.flaw(in: ViewAnswer(rows: []), to: all) != nil)
        #expect(ViewExpectation([:]).flaw(in: ViewAnswer(rows: []), to: all) == nil)
    }

    // MARK: Texts

    @Test func answerIsReadFromItsText() throws {
        let text = """
            {"total_rows":2,"rows":[
            {"id":"a","key":[1,2],"value":null},
            {"id":"b","key":"b","value":3}
            ],
            "errors":[
            {"from":"x","reason":"The index is being built: 43 %. Rows of vBuckets 0-2, 7 are missing."},
            {"from":"y","reason":"The node did not answer in time. Rows of vBucket 9 are missing."}
            ]}
            """
        let answer = try #require(ViewAnswer(text))
        #expect(answer.rows.map(\.id) == ["a", "b"])
        #expect(answer.rows.map(\.row) == [ViewRow(.list([1, 2]), nil), ViewRow(.text("b"), 3)])
        #expect(answer.missing == [0, 1, 2, 7, 9])
        #expect(answer.unbuilt == [0, 1, 2, 7])
        #expect(!answer.isComplete && !answer.mayMissAll)
        #expect(ViewAnswer(#"{"rows":["#) == nil)
        let unnamed = try #require(
            ViewAnswer(#"{"rows":[],"errors":[{"from":"x","reason":"The disk is full."}]}"#)
        )
        #expect(unnamed.mayMissAll)
    }

    @Test(
        arguments: [
            ("No node serves vBuckets 0-1, 5.", [0, 1, 5]), ("No node serves vBucket 12.", [12]),
            ("Indexing stopped: 16 calls were too slow.", []),
            ("Rows of vBucket 3 are missing: they moved to another node. Retry the query.", [3]),
        ] as [(String, Set<Int>)]
    )
    func vBucketsAreReadFromAReason(_ reason: String, _ vBuckets: Set<Int>) {
        #expect(ViewAnswer.vBuckets(in: reason) == vBuckets)
    }

    // MARK: The stand-in for the script process

    @Test func standInAnswersAsAScriptProcess() {
        let world = SimulatedWorld(seed: 3)
        world.install("divan-script") { console, _ in ScriptStandIn(console) }
        let environment = world.addHost("10.0.0.1").start()
        let recorder = FrameRecorder()
        let child = environment.children.start(
            ChildProgram("divan-script"),
            on: environment.lanes.makeLane("scripts"),
            recorder
        )
        let output = ByteWriter()
        var source = ViewFunction.grouped.source
        source.withUTF8 { text in
            let definition = ScriptDefinition(
                function: 4,
                use: .map,
                timeoutMilliseconds: 1_000,
                source: ByteView(UnsafeRawBufferPointer(text))
            )
            ScriptRequest.appendDefinition(definition, batch: 0, to: output)
        }
        var encoder = ScriptBatchEncoder(.map, functions: [4], batch: 9, to: output)
        for (meta, body) in [(#"{"id":"a"}"#, "0.7"), (#"{"id":"n"}"#, "12")] {
            let (meta, body) = (Array(meta.utf8), Array(body.utf8))
            meta.withUnsafeBytes { meta in
                body.withUnsafeBytes { body in
                    encoder.append(stamp: 1, first: ByteView(meta), second: ByteView(body))
                }
            }
        }
        encoder.finish()
        #expect(child.send(output.view) == .accepted)
        world.run(for: 200_000_000)
        #expect(
            recorder.replies == [
                "ready", "defined 4", "executing 4", "0 [2,7] 7", "finished 4",
            ]
        )
    }
}

/// Keeps the replies of a script process as texts.
private final class FrameRecorder: ChildHandler {
    private let found = Guarded<[String]>([])

    var replies: [String] { found.withLock { $0 } }

    func received(_ input: ByteView) -> Int {
        var consumed = 0
        while case .frame(let frame) = ScriptFrame.next(
            in: input.dropFirst(consumed),
            bytesMax: ScriptLimits.replyBytesMax
        ) {
            consumed += frame.byteCount
            let texts = FrameRecorder.texts(frame)
            found.withLock { $0 += texts }
        }
        return consumed
    }

    private static func texts(_ frame: ScriptFrame) -> [String] {
        switch ScriptReply(frame) {
        case .ready: return ["ready"]
        case .defined(let function): return ["defined \(function)"]
        case .executing(let function): return ["executing \(function)"]
        case .finished(let function): return ["finished \(function)"]
        case .rows(_, var rows):
            var texts: [String] = []
            while let row = rows.next() {
                texts.append("\(row.item) \(row.key.text) \(row.value.text)")
            }
            return texts
        default: return ["another reply"]
        }
    }

    func logged(_ line: String) {}

    func drained() {}

    func closed() {}

    func ended(_ end: ChildEnd) {}
}
