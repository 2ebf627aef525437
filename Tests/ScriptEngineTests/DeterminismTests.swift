import Testing
import Wire

/// The same document gives the same rows, on every copy and in every process.
@Suite struct DeterminismTests {
    let engine = Engine()

    @Test func currentTimeIsTheDocumentsModification() throws {
        let source = """
            function (doc) {
              emit([Date.now(), new Date(), new Date(2020, 1, 3).getTimezoneOffset()], Date());
              emit(new Date(0), [new Date() instanceof Date, new Date().constructor === Date]);
              emit(Date.UTC(1970, 0), Date.parse('1970-01-02'));
            }
            """
        #expect(
            try engine.rows(of: source).pairs() == [
                #"[1780000000123,"2026-05-28T20:26:40.123Z",0]="#
                    + #""Thu May 28 2026 20:26:40 GMT+0000 (Coordinated Universal Time)""#,
                #""1970-01-01T00:00:00.000Z"=[true,true]"#, "0=86400000",
            ]
        )
    }

    @Test func randomNumbersFollowFromIdAndCAS() throws {
        let source = "function (doc) { emit(Math.random(), Math.random()); }"
        let documents = [
            Document(body: "1"), Document(body: "2"), Document(cas: 2 << 32 | 1, body: "1"),
            Document(cas: 2 << 32 | 2, body: "1"), Document(meta: #"{"id":"b"}"#, body: "1"),
        ]
        try engine.define(source)
        let rows = try engine.map([1], documents).pairs()
        #expect(rows.count == 5 && rows[0] == rows[1] && Set(rows).count == 4)
        // In another batch, in another order, in another worker.
        let other = Engine()
        try other.define(source)
        #expect(try other.map([1], documents.reversed()).pairs() == rows.reversed())
        for row in rows {
            let numbers = row.split(separator: "=").compactMap { Double($0) }
            #expect(numbers.count == 2 && numbers.allSatisfy { 0..<1 ~= $0 })
            #expect(numbers.first != numbers.last)
        }
    }

    @Test func randomNumbersAreSpreadEvenly() throws {
        try engine.define("function (doc) { emit(Math.random() < 0.5, null); }")
        let documents = (0..<2_000).map {
            Document(cas: UInt64($0) << 16, meta: #"{"id":"d\#($0)"}"#, body: "1")
        }
        let low = try engine.map([1], documents).pairs().count { $0 == "true=null" }
        #expect(850...1_150 ~= low)
    }

    @Test(arguments: ["Math.random()", "Date.now()", "new Date()", "Date()"])
    func reduceFunctionHasNeitherTimeNorRandomNumbers(expression: String) throws {
        try engine.define("function (k, v) {\n return \(expression); }", use: .reduce)
        let problem = try #require(try engine.reduce([("[1]", "[1]")]).problems[1]?.first)
        #expect(problem.reason == .threw && problem.line == 2)
        #expect(problem.text.hasSuffix("the same rows must always have the same reduction."))
    }
}
