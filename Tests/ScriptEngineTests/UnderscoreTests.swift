import Foundation
import Testing
import Wire

/// Sync functions with underscore.js, as Debian's package `libjs-underscore` has it.
@Suite struct UnderscoreTests {
    private let engine = Engine()
    private let library: String

    init() throws {
        let path = "/usr/share/javascript/underscore/underscore.min.js"
        library = try #require(
            try? String(contentsOfFile: path, encoding: .utf8),
            "Install the package libjs-underscore."
        )
    }

    private func define(_ source: String) throws {
        let answer = try engine.define(source, library: library)
        try #require(answer.isDefined, "\(String(describing: answer.complaint))")
    }

    @Test func functionUsesTheLibrary() throws {
        try define(
            """
            function (doc) {
              _.each(doc.list, function (name) { channel(name); });
              if (_.contains(doc.list, "b")) role("u", _(doc.list).map(function (n) { return n + 1; }));
              expiry(_.isEqual({ a: [1] }, { a: [1] }) && _.has(doc, "list"));
            }
            """
        )
        let document = #"{"list":["a","b"]}"#
        let expected = [
            #""channel"=["a"]"#, #""channel"=["b"]"#, #""role"=["u",["a1","b1"]]"#,
            #""expiry"=true"#,
        ]
        #expect(try engine.sync(document, document).pairs() == expected + expected)
        #expect(engine.renewals == 0)
    }

    /// What a function does to the library for each document, and what the next one must see.
    @Test(arguments: [
        "channel(typeof _.each); _.each = 1;",
        "channel(typeof _.x); _.mixin({ x: function () {} });",
        "channel(typeof _); _ = 1;", "channel(typeof _.map); delete _.map;",
        "channel(_.templateSettings.x); _.templateSettings.x = 1;",
        "channel(typeof _([]).x); _.prototype.x = 1;", "channel(typeof _.each.x); _.each.x = 1;",
        "channel(typeof _); _.noConflict();",
        "channel(typeof ''.x); _.extend(String.prototype, { x: 1 });",
        "channel(typeof _.each.prototype.x); _.each.prototype.x = 1;",
        "channel(_.x); Object.defineProperty(_, 'x', { value: 1 });",
        "channel(_.templateSettings.escape.lastIndex); _.templateSettings.escape.lastIndex = 1;",
    ])
    func changedLibraryDoesNotSurviveADocument(body: String) throws {
        try define("function (doc) { \(body) }")
        let first = try engine.sync("{}").pairs()
        #expect(first.count == 1)
        #expect(try engine.sync("{}", "{}").pairs() == first + first)
    }

    @Test func sourceWithoutUnderscoreDoesNotLoadTheLibrary() throws {
        try engine.define("function (doc) { channel(typeof _); }", use: .sync)
        #expect(try engine.sync("{}").pairs() == [#""channel"=["undefined"]"#])
    }

    @Test func exceptionLinesAreThoseOfTheAuthorsText() throws {
        try define(
            """
            function (doc) {
              if (doc.a) throw new Error("own");
              _.each([1], function () {
                throw new Error("called");
              });
            }
            """
        )
        #expect(
            try engine.sync(#"{"a":1}"#, "{}").pairs() == [
                #""exception"=["Error: own",2]"#, #""exception"=["Error: called",4]"#,
            ]
        )
        #expect(try engine.define("function (doc) {\n  )", library: library).complaint?.line == 2)
    }

    @Test func libraryThatCannotBeEvaluatedIsNamed() throws {
        let answer = try engine.define("function (doc) {}", library: "throw 1;")
        #expect(answer.complaint?.text.contains("library") == true)
    }
}
