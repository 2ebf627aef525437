import Testing
import Wire

/// Which sources are functions, and the complaints about the others.
@Suite struct SourceTests {
    let engine = Engine()

    @Test(arguments: [
        "function (doc, meta) { emit(meta.id, null); }", "function (doc) {};\n ;",
        "(doc, meta) => emit(meta.id)", "function named(doc) {} // the end", "(function () {})",
        "(function () { var cache = {}; return function (doc, meta) { emit(1, 1); }; })()",
        "/* first */ function (doc) { var class_ = 1; with (doc) { x = 1; } }",
        "function (doc) { for (k in doc) ch = doc[k]; }",
    ])
    func sourceThatIsOneFunctionIsAccepted(source: String) throws {
        #expect(try engine.define(source).isDefined)
    }

    @Test(arguments: [
        ("function (doc) {\n  emit(doc.a;\n}", 2, "SyntaxError: Unexpected token ';'"),
        ("function (doc) {\n\n  emit(", 3, "SyntaxError: Unexpected end of script"),
        ("var x = 1;", 1, "SyntaxError: Unexpected keyword 'var'"),
        ("function (doc) {} function (doc) {}", 1, "SyntaxError: Unexpected"),
        ("(function () {\n  throw new Error('no');\n})()", 2, "Error: no"),
        ("", 0, "The source must be one function, such as: function (doc, meta) {"),
        (" ; ", 0, "The source must be one function, such as: function (doc, meta) {"),
        ("42", 0, "The source must be one function, such as: function (doc, meta) {"),
        ("({ map: function () {} })", 0, "The source must be one function, such as: function"),
        ("(function () { while (true); })()", 0, "The source does not evaluate to a function in"),
    ])
    func sourceThatIsNoFunctionIsRefusedWithItsLine(
        source: String,
        line: UInt32,
        text: String
    ) throws {
        let complaint = try #require(try engine.define(source).complaint)
        #expect(complaint.line == line)
        #expect(complaint.text.hasPrefix(text), "\(complaint.text)")
        // A refused definition leaves no function behind.
        #expect(try engine.map("1").reasons() == [.undefined])
    }

    @Test func newDefinitionReplacesTheOldOne() throws {
        try engine.define("function (doc) { emit(1, 1); }")
        try engine.define("function (doc) { emit(2, 2); }")
        #expect(try engine.map("1").pairs() == ["2=2"])
    }
}
