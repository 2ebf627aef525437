import Bytes
import Indexing
import LinuxPlatform
import ScriptProcesses
import Scripting
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary
import Wire

/// Script processes that cannot be started.
@Suite struct UnableScriptsTests {
    private let world = IndexWorld()

    /// A query waits for its reductions without a time limit, and keeps a reader meanwhile.
    @Test func reductionFailsIfNoProcessCanBeStarted() throws {
        defer { world.stop() }
        let (pool, stop) = makePool()
        let results = Guarded<[ScriptResults]>([])
        // The second one comes when the pool has given up, and is tried as well.
        for count in 1...2 {
            pool.submit(work(pool)) { result in results.withLock { $0.append(result) } }
            try waitUntil("the reduction ends") { results.withLock { $0.count } == count }
        }
        for result in results.withLock({ $0 }) {
            #expect(result.failures.map(\.item) == [0])
            #expect(
                result.failures.first?.text.contains("No script process can be started") == true
            )
            #expect(!result.isStopped)
        }
        stop()
    }

    @Test func trialFailsIfNoProcessCanBeStarted() async {
        defer { world.stop() }
        let (pool, stop) = makePool()
        let trial = await pool.tryMap(
            "function (doc) { emit(1, 1); }",
            on: DocumentCopy(
                meta: DocumentMeta(seqno: Seqno(1), cas: CAS(1), datatype: .json),
                value: Array("{}".utf8)
            ),
            key: Array("k".utf8),
            vBucket: VBucketID(0),
            bucket: "b"
        )
        guard case .failed(_, let text, _) = trial else {
            Issue.record("the function was run")
            return
        }
        #expect(text.contains("No script process can be started"))
        stop()
    }

    /// A pool whose program does not exist, and what ends it.
    private func makePool() -> (ScriptPool, stop: () -> Void) {
        let real = world.linux.environment
        let children = LinuxChildren(directory: "/divan-has-no-programs-here", trace: real.trace)
        let environment = real.with(children: children)
        var limits = ScriptScheduleLimits(processors: 2)
        limits.pauseNanoseconds = 1_000_000
        let lane = environment.lanes.makeLane("unable-scripts")
        let pool = ScriptPool(environment, lane: lane, category: "views", limits: limits)
        return (
            pool,
            {
                pool.stop()
                lane.stop()
                children.stop()
            }
        )
    }

    private func work(_ pool: ScriptPool) -> ScriptWork {
        let function = pool.function(
            "function (keys, values) { return values.length; }",
            .reduce,
            ofBucket: "b",
            timeoutMilliseconds: 1_000
        )
        var work = ScriptWorkWriter(.reduce, function)
        let empty = ByteWriter()
        empty.append("[]")
        work.append(first: empty.view, second: empty.view)
        return work.finish()
    }
}
