import ScriptProcesses
import TestSupport
import Testing
import Wire

/// underscore.js for sync functions.
@Suite(.serialized) struct ScriptLibraryTests {
    @Test(arguments: [
        "_.each(doc.a, channel)", "_(doc.a).each(channel)", "x = _ .each", "x=_\n  .map",
        "!_.has(a)",
        "a(_.first(b))", "'a'+_.last(b)",
    ])
    func libraryIsDetectedBeforeDotOrParenthesis(body: String) {
        #expect(ScriptLibrary.isNamed(in: "function (doc) { \(body) }"))
    }

    @Test(arguments: [
        "doc._id", "doc._.x", "_id.x", "a_.x", "a_(b)", "$_.x", "é_.x", "__.x", "_x(1)", "_ + 1",
        "_", "",
    ])
    func libraryIsNotDetectedInOtherNamesWithUnderscores(body: String) {
        #expect(!ScriptLibrary.isNamed(in: "function (doc) { \(body) }"))
    }

    @Test func missingFileIsAnErrorThatNamesThePackage() {
        let error = #expect(throws: (any Error).self) {
            try ScriptLibrary.underscore(on: FileDisk(), in: "/divan-has-no-library-here")
        }
        #expect("\(String(describing: error))".contains("libjs-underscore"))
    }

    @Test func functionWithTheLibraryUsesIt() async throws {
        let library = try ScriptLibrary.underscore(on: FileDisk())
        let world = PoolWorld()
        let source = """
            (function () {
              var pick = _.pick;
              return function (doc) { channel(_.contains([1, 2], 2), pick(doc, "a")); };
            })()
            """
        #expect(await world.pool.flaw(in: source, .sync, forBucket: "db", library: library) == nil)
        #expect(await world.pool.flaw(in: source, .sync, forBucket: "db")?.line == 2)
        let function = world.function(source, library: library)
        let results = await world.run(function, [#"{"a":1,"b":2}"#])
        #expect(results.failures.isEmpty && results.calls(0) == [#""channel"=[true,{"a":1}]"#])
        world.stop()
    }
}
