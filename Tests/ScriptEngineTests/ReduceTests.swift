import Testing
import Wire

/// Reduce functions: their arguments and results.
@Suite struct ReduceTests {
    let engine = Engine()

    @Test func reduceFunctionGetsKeysAndValues() throws {
        try engine.define(
            "function (keys, values, rereduce) { return [keys, values, rereduce]; }",
            use: .reduce
        )
        let reduced = try engine.reduce([(#"["a",[1]]"#, "[1,2]"), ("[]", "[]")])
        #expect(reduced.reductions[1] == [0: #"[["a",[1]],[1,2],false]"#, 1: "[[],[],false]"])
        let again = try engine.reduce([("null", "[3,4]")], isRereduce: true)
        #expect(again.reductions[1] == [0: "[null,[3,4],true]"])
    }

    @Test func undefinedReductionIsNull() throws {
        try engine.define("function () {}", use: .reduce)
        #expect(try engine.reduce([("[1]", "[1]")]).reductions[1] == [0: "null"])
    }

    @Test(arguments: ["'x'.repeat(65534)", "'€'.repeat(30000)"])
    func reductionAboveTheLimitFailsItsGroupOnly(expression: String) throws {
        try engine.define(
            "function (k, v) { return v[0] === 1 ? \(expression) : 'x'.repeat(65533); }",
            use: .reduce
        )
        let answer = try engine.reduce([("[1]", "[0]"), ("[1]", "[1]"), ("[1]", "[2]")])
        #expect(answer.reductions[1]?.keys.sorted() == [0, 2])
        #expect(answer.problems[1]?.map(\.item) == [1])
        #expect(answer.reasons() == [.reductionTooLong])
    }

    @Test func reductionThatNestsTooDeepFailsItsGroupOnly() throws {
        try engine.define(
            "function (k, v) { var a = 1; for (var i = 0; i < v[0]; i += 1) a = [a]; return a; }",
            use: .reduce
        )
        let answer = try engine.reduce(
            [("[1]", "[1]"), ("[1]", "[1024]"), ("[1]", "[1025]"), ("[1]", "[2]")]
        )
        #expect(answer.reductions[1]?.keys.sorted() == [0, 1, 3])
        #expect(answer.problems[1]?.map(\.item) == [2])
        #expect(answer.reasons() == [.notJSON])
        let text = "The reduction nests deeper than 1024 levels. Return a value with fewer levels."
        #expect(answer.problems[1]?.first?.text == text)
    }

    @Test func timedOutReductionFailsItsGroupOnly() throws {
        try engine.define(
            "function (k, v) { while (v[0] === 1); return sum(v); }",
            use: .reduce,
            timeoutMilliseconds: 50
        )
        let answer = try engine.reduce([("[1]", "[0,4]"), ("[1]", "[1]"), ("[1]", "[2]")])
        #expect(answer.reductions[1] == [0: "4", 2: "2"])
        #expect(answer.reasons() == [.timedOut])
    }

    @Test func reduceFunctionCannotEmit() throws {
        try engine.define("function (k, v) { emit(1, 1); }", use: .reduce)
        let problem = try #require(try engine.reduce([("[1]", "[1]")]).problems[1]?.first)
        #expect(problem.text == "ReferenceError: Can't find variable: emit")
    }
}
