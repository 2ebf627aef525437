package import Bytes
internal import CJavaScriptCore
package import Wire

/// Answers the requests of a node with JavaScriptCore: a script process, or a part of a simulator.
///
/// - One thread creates and uses a worker.
/// - Every request gets its answer, whatever its functions do, unless the process dies or a function
///   is in native code that cannot be interrupted (`Observer`).
package final class ScriptWorker {
    /// What wants to know when authors' functions run, to watch them from outside.
    package struct Observer {
        package let willExecute: (_ batch: UInt32, _ function: UInt32, _ timeout: UInt32) -> Void
        package let didExecute: () -> Void

        /// `timeout` is in milliseconds of CPU time of one item.
        package init(
            willExecute: @escaping (_ batch: UInt32, _ function: UInt32, _ timeout: UInt32) -> Void,
            didExecute: @escaping () -> Void
        ) {
            self.willExecute = willExecute
            self.didExecute = didExecute
        }
    }

    private struct Function {
        let use: ScriptUse
        let timeoutMilliseconds: UInt32
        let source: [UInt8]
        /// Replaced when a function leaves it in a state that cannot be cleaned.
        var context: ScriptContext
    }

    /// Contexts to create until the unused ones are collected.
    private static let contextsPerCollection = 64

    private let group: JSContextGroupRef
    private let cells = HarnessCells()
    private let watch: ExecutionWatch
    private let observer: Observer?
    private let scratch = ByteWriter()
    private var functions: [UInt32: Function] = [:]
    private var contexts = 0

    /// `hasTimeouts` is false where the results must not depend on a clock: in a simulator, whose
    /// functions are harmless.
    package init(observer: Observer? = nil, hasTimeouts: Bool = true) {
        divan_javascript_configure()
        guard let group = JSContextGroupCreate() else {
            preconditionFailure("JavaScriptCore creates a context group")
        }
        self.group = group
        self.observer = observer
        watch = ExecutionWatch(group: group, cells: cells, isEnabled: hasTimeouts)
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
                create(definition.source, definition.use)
            }
            switch creation {
            case .ready(let context):
                functions[definition.function] = Function(
                    use: definition.use,
                    timeoutMilliseconds: definition.timeoutMilliseconds,
                    source: definition.source.bytes,
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
                    BatchExecution.Replies(
                        encoder: encoder,
                        output: output,
                        scratch: scratch,
                        flush: flush
                    )
                )
            }
        }
    }

    private func create(_ source: ByteView, _ use: ScriptUse) -> ScriptContext.Creation {
        let creation = ScriptContext.create(
            source,
            use: use,
            in: group,
            cells: cells,
            watch: watch
        )
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
        _ replies: BatchExecution.Replies
    ) {
        let text = EngineText(request.text)
        cells.setStamps(of: request)
        for number in request.functions {
            replies.encoder.executing(function: number)
            replies.flush()
            guard let function = functions[number],
                (function.use == .map) == (request.purpose == .map)
            else {
                refuseAll(request, number, replies)
                continue
            }
            let execution = BatchExecution(
                function: number,
                context: function.context,
                batch: request,
                text: text,
                cells: cells,
                watch: watch,
                timeoutMilliseconds: function.timeoutMilliseconds,
                replies: replies
            )
            let isClean = observed(batch, number, timeout: function.timeoutMilliseconds) {
                execution.run()
                watch.begin(timeoutMilliseconds: function.timeoutMilliseconds)
                return function.context.sweep()
            }
            if !isClean { recreate(number, function, batch) }
            replies.encoder.finished(function: number)
        }
    }

    /// Gives a function a new context, because its globals cannot be restored.
    private func recreate(_ number: UInt32, _ function: Function, _ batch: UInt32) {
        let creation = observed(batch, number) {
            function.source.withUnsafeBytes { create(ByteView($0), function.use) }
        }
        if case .ready(let context) = creation { functions[number]?.context = context }
    }

    private func refuseAll(
        _ request: ScriptBatch,
        _ number: UInt32,
        _ replies: BatchExecution.Replies
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
        _ body: () -> Result
    ) -> Result {
        cells.item = HarnessCells.noItem
        observer?.willExecute(batch, function, timeout)
        defer { observer?.didExecute() }
        return body()
    }
}
