import Bytes
import LinuxPlatform
import ScriptProcesses
import Scripting
import Seams
import TestSupport
import Wire

/// A pool of real script processes, with what each of them was defined.
final class PoolWorld: Sendable {
    let pool: ScriptPool
    let children: TappedChildren
    private let linux = LinuxEnvironment.make(reactors: 1, logLevel: .fault)
    private let lane: any Lane

    init(processors: Int = 2, memoryBytesMax: UInt64? = nil, hasProgram: Bool = true) {
        let real = linux.environment
        children = TappedChildren(
            hasProgram
                ? real.children
                : LinuxChildren(directory: "/divan-has-no-programs-here", trace: real.trace)
        )
        var limits = ScriptScheduleLimits(processors: processors)
        limits.pauseNanoseconds = 1_000_000
        if let memoryBytesMax { limits.memoryBytesMax = memoryBytesMax }
        lane = real.lanes.makeLane("scripts")
        pool = ScriptPool(
            real.with(children: children),
            lane: lane,
            category: "sync",
            limits: limits
        )
    }

    func stop() {
        pool.stop()
        lane.stop()
        linux.stop()
    }

    func function(
        _ source: String,
        ofDatabase database: String = "db",
        timeoutMilliseconds: UInt32 = 1_000,
        library: ScriptLibrary? = nil
    ) -> ScriptFunction {
        pool.function(
            source,
            .sync,
            ofBucket: database,
            timeoutMilliseconds: timeoutMilliseconds,
            library: library
        )
    }

    /// A work of documents without an old version and for no user.
    static func work(_ function: ScriptFunction, _ documents: [String]) -> ScriptWork {
        var work = ScriptWorkWriter(.map, function)
        let (first, second) = (ByteWriter(), ByteWriter())
        first.append("[null,null]")
        for document in documents {
            second.removeAll()
            second.append(text: document)
            work.append(stamp: 1, first: first.view, second: second.view)
        }
        return work.finish()
    }

    func run(_ function: ScriptFunction, _ documents: [String]) async -> ScriptResults {
        await withUnsafeContinuation { waiter in
            pool.submit(PoolWorld.work(function, documents)) { waiter.resume(returning: $0) }
        }
    }
}

extension ScriptResults {
    /// The rows of an item, as `key=value`.
    func calls(_ item: Int) -> [String] {
        var calls: [String] = []
        EmittedRows(self).forEach(item: item) { calls.append("\($0.text)=\($1.text)") }
        return calls
    }
}

/// Children of a platform, with the numbers of the functions that each of them was defined.
final class TappedChildren: ChildProcesses {
    private let real: any ChildProcesses
    private let taps = Guarded<[Tap]>([])

    init(_ real: any ChildProcesses) { self.real = real }

    /// By process.
    var definitions: [[UInt32]] { taps.withLock { $0 }.map { $0.functions.withLock { $0 } } }

    func obstacle(to name: String, mustFilter: Bool) -> ChildError? {
        real.obstacle(to: name, mustFilter: mustFilter)
    }

    func start(
        _ program: ChildProgram,
        on lane: any Lane,
        _ handler: any ChildHandler
    ) -> any ChildProcess {
        let tap = Tap(real.start(program, on: lane, handler))
        taps.withLock { $0.append(tap) }
        return tap
    }

    private final class Tap: ChildProcess {
        let functions = Guarded<[UInt32]>([])
        private let real: any ChildProcess

        init(_ real: any ChildProcess) { self.real = real }

        var residentBytes: UInt64? { real.residentBytes }

        func kill() { real.kill() }

        /// The pool sends whole frames.
        func send(_ bytes: ByteView) -> ChildSendOutcome {
            var rest = bytes
            while case .frame(let frame) = ScriptFrame.next(
                in: rest,
                bytesMax: ScriptLimits.requestBytesMax
            ) {
                if case .define(let definition) = ScriptRequest(frame) {
                    functions.withLock { $0.append(definition.function) }
                }
                rest = rest.dropFirst(frame.byteCount)
            }
            return real.send(bytes)
        }
    }
}
