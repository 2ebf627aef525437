import Testing
import Wire

/// Functions of a sync gateway: what they call is recorded, and nothing of a document survives it.
@Suite struct SyncTests {
    let engine = Engine()

    private func define(_ source: String) throws {
        let answer = try engine.define(source, use: .sync)
        try #require(answer.isDefined, "\(String(describing: answer.complaint))")
    }

    /// The rows of each item, as `key=value`.
    private func calls(_ answer: Answer) -> [[String]] {
        let rows = answer.rows[1, default: []]
        let count = Int(rows.map(\.item).max() ?? 0) + 1
        return (0..<count).map { item in
            rows.filter { $0.item == item }.map { "\($0.key)=\($0.value)" }
        }
    }

    @Test func callsAreRecordedInTheirOrder() throws {
        try define(
            """
            function (doc, oldDoc, userCtx) {
              requireUser(doc.owner);
              channel("a", ["b", "c"], null, undefined, 7);
              access("joe", ["x"]);
              role(["joe", "jane"], "role:editor");
              requireRole(["r"]);
              requireAccess("news");
              requireAdmin();
              expiry(60);
              reject(451, "no");
            }
            """
        )
        let answer = try engine.sync(#"{"owner":"joe"}"#)
        #expect(
            calls(answer) == [
                [
                    #""requireUser"="joe""#, #""channel"=["a",["b","c"],null,null,7]"#,
                    #""access"=["joe",["x"]]"#, #""role"=[["joe","jane"],"role:editor"]"#,
                    #""requireRole"=["r"]"#, #""requireAccess"="news""#, #""requireAdmin"=null"#,
                    #""expiry"=60"#, #""reject"=[451,"no"]"#,
                ]
            ]
        )
        #expect(answer.problems.isEmpty)
    }

    @Test func functionGetsDocumentOldDocumentAndUser() throws {
        try define("function (doc, oldDoc, userCtx) { channel([doc.a, oldDoc.a, userCtx.name]); }")
        let meta = #"[{"a":"old"},{"name":"jane"}]"#
        let answer = try engine.map([1], [Document(meta: meta, body: #"{"a":"new"}"#)])
        #expect(answer.pairs() == [#""channel"=[["new","old","jane"]]"#])
    }

    @Test func innerFunctionsWorkBeforeTheirDefinition() throws {
        try define(
            """
            function (doc) {
              check(doc);
              function check(d) { if (!d.type) throw({forbidden: "a type is missing"}); }
              channel(doc.type);
            }
            """
        )
        let answer = try engine.sync("{}", #"{"type":"t"}"#)
        #expect(
            calls(answer) == [[#""forbidden"="a type is missing""#], [#""channel"=["t"]"#]]
        )
    }

    @Test(arguments: [
        (#"throw({unauthorized: "log in"})"#, #""unauthorized"="log in""#),
        (#"throw("text")"#, #""exception"=["text",0]"#),
        (#"throw({forbidden: ""})"#, #""exception"=["{\"forbidden\":\"\"}",0]"#),
        ("throw(new Error('bad'))", #""exception"=["Error: bad",1]"#),
    ])
    func exceptionIsTheLastRowAfterTheCalls(statement: String, row: String) throws {
        try define("function (doc) { requireUser('x'); \(statement); channel('y'); }")
        #expect(try engine.sync("{}").pairs() == [#""requireUser"="x""#, row])
    }

    @Test(arguments: [
        ("1", 0, "The source must be one function, such as: function (doc, oldDoc) {"),
        ("function (doc) {\n  channel(a b);\n}", 2, "SyntaxError: "),
        ("(function () {\n  throw new Error('no');\n})()", 2, "Error: no"),
        ("(function () { while (true); })()", 0, "The source does not evaluate to a function in"),
    ])
    func sourceThatIsNoFunctionIsRefusedWithItsLine(
        source: String,
        line: UInt32,
        text: String
    ) throws {
        let complaint = try #require(try engine.define(source, use: .sync).complaint)
        #expect(complaint.line == line && complaint.text.hasPrefix(text), "\(complaint)")
    }

    @Test func functionReturnedByAnExpressionIsAccepted() throws {
        try define("(function () { var n = ['a']; return function (doc) { channel(n); }; })()")
        #expect(try engine.sync("{}").pairs() == [#""channel"=[["a"]]"#])
    }

    // MARK: State

    /// Changes of a function to its context at the first document, and the context of the second one.
    @Test(arguments: [
        // Members that documents name.
        ("var m = {}; m[doc.a] = m[doc.a] || {}; m[doc.a][doc.b] = 1; channel(typeof ({}).x);", 1),
        ("channel(typeof {}.toString()); Object.prototype.toString = () => 1;", 1),
        ("channel(typeof [].push); Array.prototype.push = 7;", 1),
        ("channel(typeof [].map); delete Array.prototype.map;", 1),
        ("channel(typeof JSON.parse); JSON.parse = 1;", 1),
        ("channel(typeof Object.x); Object.x = 1;", 1),
        ("channel(typeof [].x); Object.setPrototypeOf(Array.prototype, { x: 1 });", 1),
        ("channel(typeof (function* () {})().x); (function* () {}).prototype.__proto__.x = 1;", 1),
        // Behind the marks of what can do more than an assignment.
        ("channel(typeof [].x); Object.defineProperty(Array.prototype, 'x', { value: 1 });", 1),
        ("channel(typeof [].x); Reflect.defineProperty(Array.prototype, 'x', { value: 1 });", 1),
        ("channel(Object.isFrozen(Math)); Object.freeze(Math);", 1),
        (
            """
            var was = [].map; channel(Object.getOwnPropertyDescriptor(Array.prototype, 'map').get);
            Object.defineProperty(Array.prototype, 'map', { get: function () { return was; } });
            """, 1
        ),
        // What needs no new context.
        ("channel(typeof x); x = 1;", 0),
        ("channel(typeof self.x); self.x = 1;", 0),
        ("count += 1; channel(count);", 0),
        ("channel(RegExp.$1); /(a)/.exec('a');", 0),
        ("channel(typeof [].map.x); [].map.x = 1;", 0),
        ("channel(typeof channel.x); channel.x = 1; channel = 1;", 0),
    ])
    func stateOfADocumentDoesNotSurviveIt(body: String, renewals: Int) throws {
        try define(
            "(function () { var count = 0; return function self(doc) { \(body) }; })()"
        )
        let document = #"{"a":"__proto__","b":"x"}"#
        let first = calls(try engine.sync(document))
        #expect(first[0].count == 1)
        // In a batch, and in the next one.
        #expect(calls(try engine.sync(document, document)) == first + first)
        #expect(engine.renewals >= renewals && (renewals > 0 || engine.renewals == 0))
    }

    @Test func prototypePollutionDoesNotOutliveItsDocument() throws {
        try define(
            """
            function (doc) {
              if (doc.a) { var m = {}; m[doc.a][doc.b] = doc.c; }
              channel(({}).isAdmin === undefined ? "none" : "polluted");
            }
            """
        )
        let answer = try engine.sync(#"{"a":"__proto__","b":"isAdmin","c":true}"#, "{}", "{}")
        #expect(
            calls(answer).map(\.last) == [
                #""channel"=["polluted"]"#, #""channel"=["none"]"#, #""channel"=["none"]"#,
            ]
        )
        #expect(engine.renewals == 1)
    }

    @Test func functionMayExtendBuiltinPrototypes() throws {
        try define(
            """
            function (doc) {
              var counts = {};
              counts["constructor"] = 1;
              function Foo() {}
              Foo.prototype.toString = function () { return "foo"; };
              if (!String.prototype.nothing) String.prototype.nothing = function () { return "p"; };
              channel(counts["constructor"], "" + new Foo(), "".nothing());
            }
            """
        )
        let expected = [#""channel"=[1,"foo","p"]"#]
        #expect(calls(try engine.sync("{}", "{}")) == [expected, expected])
    }

    @Test func harmlessFunctionKeepsItsContext() throws {
        try define(
            """
            function (doc) {
              var o = {}; o.toString = 1; o["constructor"] = 2;
              var list = [3, 1, 2]; list.sort(); list.x = 1;
              "abc".replace(/b/, "c"); new Date(); Math.random(); JSON.stringify(doc);
              channel(Object.keys(o));
            }
            """
        )
        _ = try engine.sync("{}", "{}", "{}")
        #expect(engine.renewals == 0)
    }

    @Test func jobsOfADocumentDoNotReachTheNext() throws {
        try define(
            """
            function (doc) {
              channel(typeof [].x);
              (async function () { await null; Array.prototype.x = 1; })();
            }
            """
        )
        let expected = [#""channel"=["undefined"]"#]
        #expect(calls(try engine.sync("{}")) == [expected])
        #expect(calls(try engine.sync("{}", "{}")) == [expected, expected])
    }

    // MARK: Limits

    @Test func endlessCallFailsOnlyItsDocument() throws {
        try engine.define(
            "function (doc) { while (doc.endless) {} channel('a'); }",
            use: .sync,
            timeoutMilliseconds: 50
        )
        let answer = try engine.sync("{}", #"{"endless":true}"#, "{}")
        #expect(answer.problems[1]?.map(\.item) == [1] && answer.reasons() == [.timedOut])
        #expect(answer.rows[1]?.map(\.item) == [0, 2])
    }

    @Test func recursionWithoutEndIsAnException() throws {
        try define("function (doc) { function f() { f(); } if (doc.a) f(); channel('a'); }")
        let answer = try engine.sync(#"{"a":1}"#, "{}")
        #expect(answer.rows[1]?.map(\.key) == [#""exception""#, #""channel""#])
    }

    @Test func tooMuchOutputFailsItsDocument() throws {
        try define(
            "function (doc) { for (var i = 0; i < doc.n; i++) channel('abcdefghijklmnop' + i); }"
        )
        let answer = try engine.sync(#"{"n":10000000}"#, #"{"n":1}"#)
        #expect(answer.reasons() == [.emittedTooMuch])
        #expect(answer.rows[1]?.map(\.item) == [1])
    }

    @Test func documentsThatAreNoJSONFailAlone() throws {
        try define("function (doc) { channel(doc.c); }")
        let answer = try engine.sync("{}", "{", #"{"c":"x"}"#)
        #expect(answer.reasons() == [.notJSON])
        #expect(answer.rows[1]?.map(\.item) == [0, 2])
    }
}
