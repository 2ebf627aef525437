import Testing
import Wire

/// Map functions: what they get, what they emit, and how they fail.
@Suite struct MapTests {
    let engine = Engine()

    @Test func mapFunctionEmitsRowsOfMatchingDocuments() throws {
        try engine.define("function (doc, meta) { if (doc.type === 'user') emit(doc.age, null); }")
        let answer = try engine.map(
            #"{"type":"user","age":3}"#,
            #"{"type":"order","age":4}"#,
            #"{"type":"user","age":[1,{"b":"ä\n\t"}]}"#
        )
        #expect(answer.executing == [1] && answer.finished == [1])
        #expect(
            answer.rows[1] == [
                Answer.Row(item: 0, key: "3", value: "null"),
                Answer.Row(item: 2, key: #"[1,{"b":"ä\n\t"}]"#, value: "null"),
            ]
        )
    }

    @Test func mapFunctionGetsTheMetadata() throws {
        try engine.define(
            "function (doc, meta) { emit(meta.id, [parseInt(meta.vb, 10), meta.xattrs._sync.a]); }"
        )
        let meta = #"{"id":"u1","vb":"12","xattrs":{"_sync":{"a":1}}}"#
        let answer = try engine.map([1], [Document(meta: meta, body: #""aGVsbG8=""#)])
        #expect(answer.pairs() == [#""u1"=[12,1]"#])
    }

    @Test func changesOfADocumentByAFunctionAreInvisibleToOtherFunctions() throws {
        try engine.define(1, "function (doc) { emit(1, doc); doc.a = 2; doc.b.c = 3; }")
        try engine.define(2, "function (doc) { emit(2, doc); }")
        let answer = try engine.map([1, 2], #"{"a":1,"b":{}}"#)
        #expect(answer.executing == [1, 2] && answer.finished == [1, 2])
        #expect(answer.pairs(1) == [#"1={"a":1,"b":{}}"#])
        #expect(answer.pairs(2) == [#"2={"a":1,"b":{}}"#])
    }

    @Test func emittedValuesAreJSON() throws {
        let answer = try engine.rows(
            of: """
                function (doc, meta) {
                  emit(undefined, function () {});
                  emit(NaN, Infinity);
                  emit(-0, 1e400);
                  emit(1e21, 0.1 + 0.2);
                  emit(true, Symbol('a'));
                  emit('\\ud800', new Date(0));
                  emit();
                  emit([undefined, NaN], { a: undefined, b: null });
                }
                """
        )
        #expect(
            answer.pairs() == [
                "null=null", "null=null", "0=null", "1e+21=0.30000000000000004", "true=null",
                #""\ud800"="1970-01-01T00:00:00.000Z""#, "null=null", #"[null,null]={"b":null}"#,
            ]
        )
    }

    @Test func emittedObjectIsCopiedAtTheCall() throws {
        let answer = try engine.rows(
            of: "function (doc) { for (var i = 0; i < 3; i++) { doc.n = i; emit(i, doc); } }"
        )
        #expect(answer.pairs() == [#"0={"n":0}"#, #"1={"n":1}"#, #"2={"n":2}"#])
    }

    @Test func rowsBeforeAnExceptionAreDroppedAndOtherDocumentsStay() throws {
        try engine.define(
            """
            function (doc) {
              emit(doc.n, 1);
              if (doc.n === 1) {
                missing.call();
              }
            }
            """
        )
        let answer = try engine.map(#"{"n":0}"#, #"{"n":1}"#, #"{"n":2}"#)
        #expect(answer.pairs() == ["0=1", "2=1"])
        let text = "ReferenceError: Can't find variable: missing"
        #expect(
            answer.problems[1] == [Answer.Problem(item: 1, reason: .threw, line: 4, text: text)]
        )
    }

    @Test(arguments: [
        ("throw 'broken';", "broken", 0), ("throw {code: 1};", #"{"code":1}"#, 0),
        ("throw null;", "null", 0), ("throw Symbol('a');", "A symbol.", 0),
        ("throw new RangeError('far');", "RangeError: far", 2),
        ("throw {get message() { throw 1; }};", "An exception that has no text.", 0),
        ("emit(1n);", "TypeError: JSON.stringify cannot serialize BigInt.", 2),
        ("sum(null);", "TypeError: null is not an object (evaluating 'values.length')", 2),
        ("eval('\\n\\nx y');", "SyntaxError: Unexpected identifier 'y'", 2),
        ("(function f() { f(); })();", "RangeError: Maximum call stack size exceeded.", 2),
    ])
    func exceptionHasItsTextAndLine(statement: String, text: String, line: UInt32) throws {
        let answer = try engine.rows(of: "function (doc, meta) {\n  \(statement)\n}")
        #expect(
            answer.problems[1] == [Answer.Problem(item: 0, reason: .threw, line: line, text: text)]
        )
    }

    @Test func documentThatIsNotJSONFailsAlone() throws {
        try engine.define("function (doc, meta) { emit(doc, 1); }")
        let answer = try engine.map("1", #"{"a""#, "2", "3],[4")
        #expect(answer.pairs() == ["1=1", "2=1"])
        #expect(answer.reasons() == [.notJSON, .notJSON])
        #expect(answer.problems[1]?.map(\.item) == [1, 3])
    }

    @Test func undefinedFunctionFailsEveryItem() throws {
        try engine.define("function (keys, values) { return 1; }", use: .reduce)
        #expect(try engine.map([1], "1", "2").reasons() == [.undefined, .undefined])
        #expect(try engine.map([7], "1").reasons(7) == [.undefined])
    }

    @Test func logLinesAreSentUpToTheirLimit() throws {
        let answer = try engine.rows(
            of: "function (doc) { log({a: 1}); for (var i = 0; i < 30; i++) log('line ' + i); }"
        )
        #expect(answer.log == [#"{"a":1}"#] + (0..<9).map { "line \($0)" })
        #expect(answer.dropped == 21)
    }

    @Test func viewFunctionsConvertDatesBase64AndSums() throws {
        let answer = try engine.rows(
            of: """
                function (doc, meta) {
                  emit(dateToArray(doc.at), decodeBase64('aGVsbG8='));
                  emit(dateToArray(new Date(0)), decodeBase64('/+8='));
                  emit(dateToArray('never'), decodeBase64(''));
                  emit(sum([1, 2.5]), decodeBase64('AA=='));
                }
                """,
            #"{"at":"2026-11-25T16:04:05Z"}"#
        )
        #expect(
            answer.pairs() == [
                "[2026,11,25,16,4,5]=[104,101,108,108,111]", "[1970,1,1,0,0,0]=[255,239]",
                "null=[]", "3.5=[0]",
            ]
        )
    }

    @Test func largeResultsAreSentInPieces() throws {
        try engine.define("function (doc, meta) { emit(doc, 'x'.repeat(300000)); }")
        let documents = (0..<20).map { Document(body: "\($0)") }
        let answer = try engine.map([1], documents)
        #expect(answer.rows[1]?.map(\.item) == (0..<20).map { $0 })
        #expect(answer.frameBytesMax < 2 * ScriptLimits.pieceBytes)
        #expect(answer.frameBytesMax > ScriptLimits.pieceBytes / 2)
    }
}
