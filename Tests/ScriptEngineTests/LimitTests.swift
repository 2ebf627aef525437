import Testing
import Wire

/// What a function may use of time and emit, and what it cannot do to others.
@Suite struct LimitTests {
    let engine = Engine()

    @Test(arguments: [
        ("emit('x'.repeat(4094), 1)", ScriptProblem.Reason.keyTooLong, 2),
        // Three bytes each.
        ("emit('€'.repeat(1400), 1)", .keyTooLong, 0),
        ("emit(1, 'x'.repeat(1 << 20))", .emittedTooMuch, 2),
        ("emit(1, '€'.repeat(400000))", .emittedTooMuch, 0),
        ("for (var i = 0; i < 65537; i++) emit(1, 1)", .emittedTooMuch, 2),
        ("while (true) emit(1, 1)", .emittedTooMuch, 2),
        ("try { emit('x'.repeat(5000), 1) } catch (e) {} emit(1, 1)", .keyTooLong, 2),
        ("try { emit('x'.repeat(5000), 1) } catch (e) {}", .keyTooLong, 2),
    ])
    func emitAboveALimitSkipsTheDocument(
        statement: String,
        reason: ScriptProblem.Reason,
        line: UInt32
    ) throws {
        try engine.define(
            "function (doc) {\n  if (doc === 1) { \(statement) } else emit(doc, 2)\n}"
        )
        let answer = try engine.map("0", "1", "2")
        #expect(answer.pairs() == ["0=2", "2=2"])
        let problem = try #require(answer.problems[1]?.first)
        #expect(problem.item == 1 && problem.reason == reason && problem.line == line)
        #expect(problem.text.hasSuffix("Emit less.") || problem.text.hasSuffix("a shorter key."))
    }

    @Test func emitUpToTheLimitsIsKept() throws {
        let answer = try engine.rows(
            of: """
                function (doc) {
                  emit('x'.repeat(4093), 1);
                  for (var i = 0; i < 65535; i++) emit(1, 1);
                }
                """
        )
        #expect(answer.rows[1]?.count == ScriptLimits.rowsMax)
        #expect(answer.problems.isEmpty)
    }

    /// `a` has as many levels as the document's number states.
    @Test(arguments: [
        "emit(a, 1)", "emit(1, a)", "emit(1, 1); emit(2, a); emit(3, 3)",
        #"emit(1, {'\\': a[0]})"#, #"emit(1, {'\\"[': a[0]})"#,
    ])
    func rowThatNestsTooDeepSkipsOnlyItsDocument(statement: String) throws {
        try engine.define(
            """
            function (doc) {
              var a = 1;
              for (var i = 0; i < doc; i += 1) a = [a];
              \(statement);
            }
            """
        )
        let answer = try engine.map("1", "1024", "1025", "1100", "2")
        #expect(Set(answer.rows[1, default: []].map(\.item)) == [0, 1, 4])
        #expect(answer.problems[1]?.map(\.item) == [2, 3])
        #expect(answer.reasons() == [.notJSON, .notJSON])
        let text = "A key or a value nests deeper than 1024 levels. Emit a part of it."
        #expect(answer.problems[1]?.allSatisfy { $0.text == text } == true)
        #expect(answer.finished == [1])
    }

    @Test func bracketsInStringsDoNotCountAsNesting() throws {
        // With quotation marks and backslashes, which are escaped.
        let text = "\"" + String(repeating: #"\"[\\{"#, count: 600) + "\""
        let answer = try engine.rows(of: "function (doc) { emit(doc, [doc]); }", text)
        #expect(answer.pairs() == ["\(text)=[\(text)]"])
    }

    @Test(arguments: [
        "while (true);",
        "while (true) { try { while (true); } catch (e) {} finally { emit(3, 3); } }",
        "var a = [3, 1, 2]; while (true) a.sort(function () { while (true); });",
        "throw new Proxy({}, { get: function () { while (true); } });",
        "emit({ toJSON: function () { while (true); } }, 1);",
        "for (;;) { try { emit(1, 1); } catch (e) {} }",
    ])
    func timedOutDocumentIsSkippedAndTheNextOnesAreMapped(statement: String) throws {
        try engine.define(
            "function (doc) { if (doc === 1) { \(statement) } emit(doc, 2); }",
            timeoutMilliseconds: 100
        )
        let clock = ContinuousClock()
        let began = clock.now
        let answer = try engine.map("0", "1", "2", "1", "3")
        #expect(answer.pairs() == ["0=2", "2=2", "3=2"])
        #expect(answer.reasons() == [.timedOut, .timedOut])
        let text = "The function ran for more than 100 ms and was stopped."
        #expect(answer.problems[1]?.allSatisfy { $0.text == text } == true)
        // CPU time: 125 ms at most each; the rest is for a busy machine.
        #expect(clock.now - began < .seconds(20))
    }

    @Test func slowDocumentsWithinTheTimeoutAreKept() throws {
        // Together far above the timeout, each below.
        try engine.define(
            "function (doc) { for (var i = 0; i < 3e6; i++) doc += i % 2; emit(1, 1); }",
            timeoutMilliseconds: 1_000
        )
        let answer = try engine.map([1], (0..<100).map { Document(body: "\($0)") })
        #expect(answer.rows[1]?.count == 100 && answer.problems.isEmpty)
    }

    @Test func tamperedBuiltinsHarmNeitherTheHarnessNorOtherFunctions() throws {
        try engine.define(
            1,
            """
            function (doc, meta) {
              emit({ a: doc }, [1]);
              JSON.stringify = function () { return 'rubbish\\t\\n'; };
              JSON.parse = Reflect.ownKeys = Reflect.deleteProperty = null;
              Array.prototype.push = String.prototype.slice = Math.floor = null;
              Function.prototype.call = Function.prototype.apply = Function.prototype.bind = null;
              Array.prototype[Symbol.iterator] = null;
              Object.prototype.toJSON = undefined;
              Object.prototype.next = Object.prototype.text = 7;
              Array.prototype.__defineSetter__('0', function () { throw 'a setter'; });
              emit(2, 'x');
              Date = Math = JSON = emit = undefined;
            }
            """
        )
        try engine.define(2, "function (doc, meta) { emit(JSON.stringify(doc), Math.floor(1.5)); }")
        for _ in 0..<3 {
            let answer = try engine.map([1, 2], "0", "1")
            #expect(answer.pairs(2) == [#""0"=1"#, #""1"=1"#])
            #expect(answer.rows[1]?.first == Answer.Row(item: 0, key: #"{"a":0}"#, value: "[1]"))
            #expect(answer.finished == [1, 2])
        }
    }

    @Test func globalsDoNotOutliveABatch() throws {
        try engine.define(
            "function (doc) { emit(typeof seen, typeof JSON); seen = 1; JSON = undefined; }"
        )
        for _ in 0..<2 {
            let answer = try engine.map("1")
            #expect(answer.pairs() == [#""undefined"="object""#])
        }
    }

    @Test func globalThatCannotBeDeletedDoesNotOutliveABatch() throws {
        try engine.define(
            "function (doc) { emit(typeof kept); Object.defineProperty(this, 'kept', {value: 1}); }"
        )
        for _ in 0..<2 { #expect(try engine.map("1").pairs() == [#""undefined"=null"#]) }
    }

    @Test func globalsOutsideTheSandboxAreUndefined() throws {
        let names = [
            "ArrayBuffer", "SharedArrayBuffer", "Uint8Array", "Float64Array", "DataView", "Atomics",
            "WebAssembly", "Intl", "console", "WeakRef", "FinalizationRegistry", "ShadowRealm",
            "setTimeout", "print", "load", "require", "process",
        ]
        let list = names.map { "typeof \($0)" }.joined(separator: ", ")
        let answer = try engine.rows(of: "function (doc) { emit([\(list)].join(), null); }")
        let absent = names.map { _ in "undefined" }.joined(separator: ",")
        #expect(answer.pairs() == ["\"\(absent)\"=null"])
    }

    @Test func functionCannotReachTheHarnessThroughItsCaller() throws {
        let answer = try engine.rows(
            of: """
                function f(doc) {
                  emit([f.caller, arguments.callee.caller, this === globalThis]);
                }
                """
        )
        #expect(answer.pairs() == ["[null,null,true]=null"])
    }

    @Test func emitOfAPromiseAfterTheFunctionIsDropped() throws {
        try engine.define(
            "function (doc) { emit(doc, 1); Promise.resolve().then(function () { emit(9, 9); }); }"
        )
        #expect(try engine.map("1", "2").pairs() == ["1=1", "2=1"])
    }
}
