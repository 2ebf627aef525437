import Bytes
import Indexing
import LinuxPlatform
import ScriptProcesses
import Scripting
import Seams
import Testing
import ViewService
import Wire

/// Checks of sources in a real script process.
@Suite(.serialized) struct SourceCheckTests {
    private func flaw(in source: String, _ use: ScriptUse) async -> ScriptPool.SourceFlaw? {
        let linux = LinuxEnvironment.make(reactors: 1, logLevel: .error)
        let lane = linux.environment.lanes.makeLane("scripts")
        let scripts = ScriptPool(
            linux.environment,
            lane: lane,
            category: "views",
            limits: ScriptScheduleLimits(processors: 1)
        )
        let flaw = await scripts.flaw(in: source, use, forBucket: "b")
        scripts.stop()
        lane.stop()
        linux.stop()
        return flaw
    }

    @Test func syntaxErrorHasItsLineAndMessage() async {
        let map = await flaw(in: "function (doc, meta) {\n  emit(doc.a b);\n}", .map)
        #expect(map?.line == 2)
        #expect(map?.text.isEmpty == false)
        let reduce = await flaw(in: "function (keys, values) { return ; ) }", .reduce)
        #expect(reduce?.line == 1)
    }

    @Test func expressionThatIsNoFunctionIsAFlaw() async {
        #expect(await flaw(in: "1 + 1", .map) != nil)
        #expect(await flaw(in: "", .reduce) != nil)
    }

    @Test(arguments: ["function (doc) { while (true) {} }", "function (doc) { throw 1; }"])
    func functionThatWouldFailIsNotCalled(source: String) async {
        #expect(await flaw(in: source, .map) == nil)
        #expect(await flaw(in: source, .reduce) == nil)
    }
}
