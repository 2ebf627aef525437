package import Bytes
internal import CJavaScriptCore
package import Wire

/// Answers the requests of a node with JavaScriptCore, in a script process.
///
/// - One thread creates and uses a worker.
/// - Every request gets its answer, whatever its functions do, unless the process dies or a function
///   is in native code that cannot be interrupted (`Host`).
/// - Without memory the engine answers what is not true: valid JSON is none, a text is empty. So a worker
///   that is short of memory ends its process.
package final class ScriptWorker {
    /// The process around a worker.
    package protocol Host: AnyObject {
        /// Authors' code runs from now on; `timeout` is in milliseconds of CPU time of one item.
        func willExecute(batch: UInt32, function: UInt32, timeout: UInt32)

        func didExecute()

        /// Whether the memory suffices for calls of functions.
        var hasMemory: Bool { get }

        /// Ends the process between two batches, because those before left too little memory.
        ///
        /// `output` has the last replies.
        func retire(_ output: ByteWriter) -> Never

        /// Ends the process because jobs that items of the function left behind do not end.
        ///
        /// The engine continues them with each further call, so the process is of no use.
        func overrun(batch: UInt32, function: UInt32) -> Never

        /// Ends the process in a batch that cannot be answered; the batch is suspect.
        func fail(_ reason: String) -> Never
    }

    private struct Function {
        let use: ScriptUse
        let timeoutMilliseconds: UInt32
        let source: [UInt8]
        let library: [UInt8]
        /// Replaced when a function leaves it in a state that cannot be cleaned.
        var context: ScriptContext
    }

    /// Contexts to create until the unused ones are collected.
    private static let contextsPerCollection = 64

    private let group: JSContextGroupRef
    private let cells = HarnessCells()
    private let watch: ExecutionWatch
    private let host: any Host
    private let scratch = ByteWriter()
    private var functions: [UInt32: Function] = [:]
    private var contexts = 0
    /// Contexts that were made because a function had changed the one before.
    package private(set) var renewals = 0
    /// Whether a batch was executed.
    private var isUseful = false

    package init(_ host: any Host) {
        divan_javascript_configure()
        guard let group = JSContextGroupCreate() else {
            preconditionFailure("JavaScriptCore creates a context group")
        }
        self.group = group
        self.host = host
        watch = ExecutionWatch(group: group, cells: cells)
    }

    deinit {
        functions.removeAll()
        JSContextGroupClearExecutionTimeLimit(group)
        JSContextGroupRelease(group)
    }

    /// The number of the running item; valid as long as the worker.
    package var runningItem: UnsafePointer<UInt32> { UnsafePointer(cells.words) }

    /// Appends the replies to a request to `output`.
    ///
    /// `flush` sends and removes what `output` has. It is called before a function runs, so that the
    /// node knows what a death interrupted, and after each piece of large results.
    package func handle(
        _ request: ScriptRequest,
        batch: UInt32,
        output: ByteWriter,
        flush: () -> Void
    ) {
        let encoder = ScriptReplyEncoder(batch: batch, output: output)
        switch request {
        case .define(let definition):
            functions[definition.function] = nil
            let creation = observed(batch, definition.function) {
                create(definition)
            }
            switch creation {
            case .ready(let context):
                functions[definition.function] = Function(
                    use: definition.use,
                    timeoutMilliseconds: definition.timeoutMilliseconds,
                    source: definition.source.bytes,
                    library: definition.library.bytes,
                    context: context
                )
                encoder.defined(function: definition.function)
            case .refused(let line, let text):
                var text = text
                text.withUTF8 { bytes in
                    let text = ByteView(UnsafeRawBufferPointer(bytes))
                    let complaint = ScriptComplaint(line: line, text: text)
                    encoder.refused(function: definition.function, complaint)
                }
            }
        case .forget(let function): functions[function] = nil
        case .execute(let request):
            withoutActuallyEscaping(flush) { flush in
                execute(
                    request,
                    batch,
                    to: BatchExecution.Replies(
                        batch: batch,
                        encoder: encoder,
                        output: output,
                        scratch: scratch,
                        flush: flush
                    )
                )
            }
        }
    }

    private func create(_ definition: ScriptDefinition) -> ScriptContext.Creation {
        let creation = ScriptContext.create(definition, in: group, cells: cells, watch: watch)
        contexts += 1
        if contexts >= ScriptWorker.contextsPerCollection, case .ready(let context) = creation {
            contexts = 0
            context.collectGarbage()
        }
        return creation
    }

    private func execute(
        _ request: ScriptBatch,
        _ batch: UInt32,
        to replies: BatchExecution.Replies
    ) {
        if isUseful, !host.hasMemory {
            replies.encoder.retiring()
            host.retire(replies.output)
        }
        isUseful = true
        let text = EngineText(request.text)
        cells.setStamps(of: request)
        for number in request.functions {
            replies.encoder.executing(function: number)
            replies.flush()
            guard let function = functions[number],
                (function.use == .reduce) == (request.purpose != .map)
            else {
                refuseAll(request, number, to: replies)
                continue
            }
            var execution = BatchExecution(
                function: number,
                context: function.context,
                batch: request,
                text: text,
                cells: cells,
                watch: watch,
                timeoutMilliseconds: function.timeoutMilliseconds,
                replies: replies,
                host: host
            )
            let isClean = observed(batch, number, timeout: function.timeoutMilliseconds) {
                execution.run { renewed(number, function) }
                watch.begin(timeoutMilliseconds: function.timeoutMilliseconds)
                let isClean = execution.context.sweep()
                if watch.hasTimedOut { host.overrun(batch: batch, function: number) }
                return isClean
            }
            functions[number]?.context = execution.context
            if !isClean { recreate(number, function, batch: batch) }
            replies.encoder.finished(function: number)
        }
    }

    /// Gives a function a new context, because its globals cannot be restored.
    private func recreate(_ number: UInt32, _ function: Function, batch: UInt32) {
        let context = observed(batch, number) { renewed(number, function) }
        if let context { functions[number]?.context = context }
    }

    /// A new context of a function; nil if its source fails now.
    private func renewed(_ number: UInt32, _ function: Function) -> ScriptContext? {
        let creation = function.source.withUnsafeBytes { source in
            function.library.withUnsafeBytes { library in
                create(
                    ScriptDefinition(
                        function: number,
                        use: function.use,
                        timeoutMilliseconds: function.timeoutMilliseconds,
                        source: ByteView(source),
                        library: ByteView(library)
                    )
                )
            }
        }
        guard case .ready(let context) = creation else { return nil }
        renewals += 1
        return context
    }

    private func refuseAll(
        _ request: ScriptBatch,
        _ number: UInt32,
        to replies: BatchExecution.Replies
    ) {
        for item in 0..<request.count {
            let problem = ScriptProblem(
                item: UInt32(item),
                reason: .undefined,
                line: 0,
                text: .empty
            )
            replies.encoder.problem(function: number, problem)
        }
        replies.encoder.finished(function: number)
    }

    private func observed<Result>(
        _ batch: UInt32,
        _ function: UInt32,
        timeout: UInt32 = ScriptLimits.mapTimeoutMilliseconds,
        body: () -> Result
    ) -> Result {
        cells.item = HarnessCells.noItem
        host.willExecute(batch: batch, function: function, timeout: timeout)
        defer { host.didExecute() }
        return body()
    }
}
