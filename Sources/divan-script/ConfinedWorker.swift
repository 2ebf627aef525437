import Bytes
import LinuxPlatform
import ScriptEngine
import Wire

/// A worker in a process of its own: confines the process, then answers the node until it closes.
enum ConfinedWorker {
    /// A step that exceeds this time cannot be interrupted by the engine, which does so after 1.25 timeouts: it is in
    /// native code, or consists of jobs of promises, for each of which the engine begins the timeout anew.
    private static func millisecondsUntilEnd(_ timeout: UInt32) -> UInt32 { timeout / 2 * 3 }
    /// The status with which `OverrunWatch` ends the process.
    private static let overrunStatus: Int32 = 3
    private static let readBytes = 256 << 10

    static func run(
        _ socket: InheritedSocket,
        memoryBytes: UInt64,
        isFilterOptional: Bool
    ) -> Never {
        let environment = [(name: "TZ", value: "UTC"), (name: "LC_ALL", value: "C")]
        require(Confinement.begin(keeping: socket.descriptor, environment: environment))
        note(Confinement.raiseOutOfMemoryScore())
        let host = Host(socket, memoryBytes: memoryBytes)
        let worker = ScriptWorker(host)
        warmUp(worker)
        host.watch = OverrunWatch(descriptor: socket.descriptor, step: worker.runningItem)
        if host.watch == nil { require("cannot create a timer for CPU time") }
        require(Confinement.limitFurtherMemory(bytes: memoryBytes))
        host.watchMemory()
        let unfiltered = Confinement.filterSystemCalls()
        if isFilterOptional { note(unfiltered) } else { require(unfiltered) }

        let output = ByteWriter()
        ScriptReplyEncoder(batch: 0, output: output).ready(isFiltered: unfiltered == nil)
        serve(socket, worker, to: output)
    }

    /// Runs a function once, so that the engine has started its compiler's thread and read the time zone.
    ///
    /// A text of a locale would take 10 ms more: the names of all locales are made for the first one.
    private static func warmUp(_ worker: ScriptWorker) {
        let output = ByteWriter()
        let source = """
            function (doc, meta) {
              for (var i = 0; i < 5000; i++) /a+b/.test('aab' + i);
              emit(new Date(0).toString(), Math.random());
            }
            """
        Array(source.utf8).withUnsafeBytes { bytes in
            let definition = ScriptDefinition(
                function: 0,
                use: .map,
                timeoutMilliseconds: ScriptLimits.mapTimeoutMilliseconds,
                source: ByteView(bytes)
            )
            worker.handle(.define(definition), batch: 0, output: output) {}
        }
        let request = ByteWriter()
        var batch = ScriptBatchEncoder(.map, functions: [0], batch: 0, to: request)
        [UInt8]("{}".utf8).withUnsafeBytes { bytes in
            batch.append(stamp: 0, first: ByteView(bytes), second: ByteView(bytes))
        }
        batch.finish()
        if case .frame(let frame) = ScriptFrame.next(
            in: request.view,
            bytesMax: ScriptLimits.requestBytesMax
        ), let map = ScriptRequest(frame) {
            worker.handle(map, batch: 0, output: output) {}
        }
        worker.handle(.forget(function: 0), batch: 0, output: output) {}
    }

    private static func serve(
        _ socket: InheritedSocket,
        _ worker: ScriptWorker,
        to output: ByteWriter
    ) -> Never {
        let input = ByteWriter(capacity: 2 * readBytes)
        func flush() {
            // The node has closed: it needs no answer.
            guard socket.write(output.view) else { ProcessEnd.exit(0) }
            output.removeAll(keepingAtMost: 2 * ScriptLimits.pieceBytes)
        }
        flush()
        while true {
            guard socket.read(into: input, bytesMax: readBytes) else { ProcessEnd.exit(0) }
            var offset = 0
            decoding: while true {
                let rest = input.view.dropFirst(offset)
                switch ScriptFrame.next(in: rest, bytesMax: ScriptLimits.requestBytesMax) {
                case .incomplete: break decoding
                case .frame(let frame):
                    guard let request = ScriptRequest(frame) else { refuse() }
                    offset += frame.byteCount
                    worker.handle(request, batch: frame.batch, output: output, flush: flush)
                    flush()
                case .invalid: refuse()
                }
            }
            input.removeFirst(offset)
            if input.count == 0 { input.removeAll(keepingAtMost: 4 * readBytes) }
        }
    }

    private static func refuse() -> Never {
        ProcessEnd.report("divan-script: a frame of the node is invalid; both must be of one build")
        ProcessEnd.exit(65)
    }

    private static func require(_ failure: String?) {
        guard let failure else { return }
        ProcessEnd.report("divan-script: \(failure)")
        ProcessEnd.exit(71)
    }

    private static func note(_ failure: String?) {
        if let failure { ProcessEnd.report("divan-script: \(failure)") }
    }

    private final class Host: ScriptWorker.Host {
        var watch: OverrunWatch?
        private let socket: InheritedSocket
        private let leastBytes: Int
        private var isMemoryWatched = false
        /// The reply that the process sends when it ends itself.
        private let frame = ByteWriter()

        init(_ socket: InheritedSocket, memoryBytes: UInt64) {
            self.socket = socket
            leastBytes = Int(memoryBytes / 10 * 4)
        }

        func willExecute(batch: UInt32, function: UInt32, timeout: UInt32) {
            frame.removeAll()
            ScriptReplyEncoder(batch: batch, output: frame).overran(function: function)
            watch?.begin(
                message: frame.view,
                offset: ScriptReplyEncoder.overranItemOffset,
                milliseconds: millisecondsUntilEnd(timeout)
            )
        }

        func didExecute() { watch?.end() }

        /// The engine returns no memory that it has reserved, so this does not change back.
        var hasMemory: Bool { !isMemoryWatched || Confinement.canAllocate(bytes: leastBytes) }

        /// Watches the memory from now on, unless the machine refuses so much to a new process.
        func watchMemory() { isMemoryWatched = Confinement.canAllocate(bytes: leastBytes) }

        func retire(_ output: ByteWriter) -> Never {
            _ = socket.write(output.view)
            ProcessEnd.exit(0)
        }

        func overrun(batch: UInt32, function: UInt32) -> Never {
            frame.removeAll()
            ScriptReplyEncoder(batch: batch, output: frame).overran(function: function)
            // No item: the jobs belong to none of them.
            frame.replace(at: ScriptReplyEncoder.overranItemOffset, bigEndian: UInt32.max)
            _ = socket.write(frame.view)
            ProcessEnd.exit(overrunStatus)
        }

        func fail(_ reason: String) -> Never {
            ProcessEnd.report("divan-script: \(reason)")
            ProcessEnd.exit(70)
        }
    }
}
