import Bytes
import ScriptProcesses
import TestSupport
import Testing
import Wire

/// Sync functions in real script processes.
@Suite(.serialized) struct SyncWorkTests {
    private static let endless = "function (doc) { while (doc.endless) {} channel('a'); }"

    @Test func rowsOfEachDocumentOfABatchArrive() async {
        let world = PoolWorld()
        let function = world.function(
            "function (doc) { for (var i = 0; i < doc.n; i++) channel('c' + i); role('u', doc.n); }"
        )
        // More than a first piece has.
        let results = await world.run(function, (0..<40).map { #"{"n":\#($0)}"# })
        #expect(results.failures.isEmpty && !results.isAbandoned)
        for item in 0..<40 {
            let channels = (0..<item).map { #""channel"=["c\#($0)"]"# }
            #expect(results.calls(item) == channels + [#""role"=["u",\#(item)]"#])
        }
        world.stop()
    }

    @Test func exceptionIsReportedInARowOfItsDocument() async {
        let world = PoolWorld()
        let function = world.function(
            "function (doc) {\n  if (doc.bad) throw({forbidden: 'no'});\n  channel(doc.x.y);\n}"
        )
        let results = await world.run(function, [#"{"bad":1}"#, "{}", #"{"x":{"y":"a"}}"#])
        #expect(results.failures.isEmpty)
        #expect(results.calls(0) == [#""forbidden"="no""#])
        #expect(results.calls(1).first?.hasPrefix(#""exception"=["TypeError"#) == true)
        #expect(results.calls(1).first?.hasSuffix(",3]") == true)
        #expect(results.calls(2) == [#""channel"=["a"]"#])
        world.stop()
    }

    @Test func endlessDocumentFailsAndTheOthersHaveResults() async {
        let world = PoolWorld()
        let function = world.function(SyncWorkTests.endless, timeoutMilliseconds: 50)
        let documents = ["{}", #"{"endless":true}"#, "{}", #"{"endless":true}"#, "{}"]
        let results = await world.run(function, documents)
        #expect(results.failures.map(\.item).sorted() == [1, 3])
        #expect(results.failures.allSatisfy { $0.kind == .timedOut })
        #expect(!results.isAbandoned)
        for item in [0, 2, 4] { #expect(results.calls(item) == [#""channel"=["a"]"#]) }
        world.stop()
    }

    @Test func functionWithoutEndIsAbandonedAndEachItemHasAFailure() async {
        let world = PoolWorld()
        let function = world.function(SyncWorkTests.endless, timeoutMilliseconds: 10)
        let documents = Array(repeating: #"{"endless":true}"#, count: 60)
        async let other = world.run(function, ["{}"])
        let results = await world.run(function, documents)
        #expect(results.isAbandoned)
        #expect(results.failures.map(\.item).sorted() == Array(0..<60))
        #expect(Set(results.failures.map(\.kind)) == [.timedOut, .abandoned])
        // Another client's document is called for.
        #expect(await other.calls(0) == [#""channel"=["a"]"#])
        #expect(await world.run(function, ["{}"]).calls(0) == [#""channel"=["a"]"#])
        world.stop()
    }

    @Test func hugeOutputFailsItsDocumentOnly() async {
        let world = PoolWorld()
        let function = world.function(
            "function (doc) { for (var i = 0; i < doc.n; i++) channel('abcdefghijklmnop' + i); }"
        )
        let results = await world.run(function, [#"{"n":1}"#, #"{"n":10000000}"#, #"{"n":1}"#])
        #expect(results.failures.map(\.item) == [1])
        #expect(results.failures.first?.kind == .problem(.emittedTooMuch))
        #expect(results.calls(0) == results.calls(2) && results.calls(0).count == 1)
        world.stop()
    }

    @Test func documentThatEndsProcessesFailsAndTheOthersHaveResults() async {
        let world = PoolWorld(memoryBytesMax: 96 << 20)
        let function = world.function(
            """
            function (doc) {
              for (var all = []; doc.huge;) all.push(new Array(100000).fill({}));
              channel('a');
            }
            """
        )
        let results = await world.run(function, ["{}", #"{"huge":true}"#, "{}"])
        #expect(results.failures.map(\.item) == [1])
        #expect(results.failures.first?.kind == .endedProcess)
        for item in [0, 2] { #expect(results.calls(item) == [#""channel"=["a"]"#]) }
        world.stop()
    }

    @Test func worksOfForgottenFunctionEndAsStopped() throws {
        let world = PoolWorld()
        let function = world.function(SyncWorkTests.endless, timeoutMilliseconds: 10_000)
        let results = Guarded<[ScriptResults]>([])
        for _ in 1...2 {
            let work = PoolWorld.work(function, [#"{"endless":true}"#, "{}"])
            world.pool.submit(work) { result in results.withLock { $0.append(result) } }
        }
        try waitUntil("a process has the function") {
            world.children.definitions.contains { !$0.isEmpty }
        }
        world.pool.forget(function)
        try waitUntil("both works are answered") { results.withLock { $0.count } == 2 }
        for result in results.withLock({ $0 }) {
            #expect(result.isStopped && result.failures.map(\.item) == [0, 1])
        }
        world.stop()
    }

    @Test func databasesShareNoProcess() async {
        let world = PoolWorld(processors: 1)
        let source = "function (doc) { channel(doc.c); }"
        let databases = ["a", "b", "c"]
        let functions = databases.map { world.function(source, ofDatabase: $0) }
        for round in 0..<3 {
            await withTaskGroup(of: [String].self) { group in
                for function in functions {
                    group.addTask { await world.run(function, [#"{"c":\#(round)}"#]).calls(0) }
                }
                for await calls in group { #expect(calls == [#""channel"=[\#(round)]"#]) }
            }
        }
        let definitions = world.children.definitions
        #expect(definitions.allSatisfy { Set($0).count <= 1 }, "\(definitions)")
        #expect(Set(definitions.joined()) == Set(functions.map(\.number)))
        world.stop()
    }

    @Test func workFailsIfNoProcessCanBeStarted() async {
        let world = PoolWorld(hasProgram: false)
        let results = await world.run(world.function("function (doc) {}"), ["{}", "{}"])
        #expect(results.failures.map(\.item) == [0, 1])
        #expect(results.failures.first?.kind == .endedProcess && !results.isStopped)
        world.stop()
    }

    @Test func syntaxErrorIsFoundWithoutCallingTheFunction() async {
        let world = PoolWorld()
        let pool = world.pool
        let flaw = await pool.flaw(
            in: "function (doc) {\n  channel(doc.a b);\n}",
            .sync,
            forBucket: "db"
        )
        #expect(flaw?.line == 2 && flaw?.text.isEmpty == false)
        #expect(await pool.flaw(in: "1 + 1", .sync, forBucket: "db") != nil)
        #expect(await pool.flaw(in: "", .sync, forBucket: "db") != nil)
        for body in ["while (true) {}", "throw 1;", "_.each([]);"] {
            let source = "function (doc) { \(body) }"
            #expect(await pool.flaw(in: source, .sync, forBucket: "db") == nil)
        }
        world.stop()
    }
}
