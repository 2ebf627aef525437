import Bytes
import ScriptEngine
import Testing
import Wire

/// A worker in the test's own process, spoken to in frames.
final class Engine {
    private final class Host: ScriptWorker.Host {
        func willExecute(batch: UInt32, function: UInt32, timeout: UInt32) {}
        func didExecute() {}
        var hasMemory: Bool { true }
        func retire(_ output: ByteWriter) -> Never { fatalError("a worker with memory retires") }
        func overrun(batch: UInt32, function: UInt32) -> Never {
            fatalError("jobs of function \(function) do not end")
        }
        func fail(_ reason: String) -> Never { fatalError(reason) }
    }

    private let worker = ScriptWorker(Host())

    /// Defines function 1.
    @discardableResult
    func define(
        _ source: String,
        use: ScriptUse = .map,
        timeoutMilliseconds: UInt32 = 1_000
    ) throws -> Answer {
        try define(1, source, use: use, timeoutMilliseconds: timeoutMilliseconds)
    }

    /// Defines sync function 1 with a library.
    @discardableResult
    func define(_ source: String, library: String) throws -> Answer {
        try send(Requests.define(1, source, use: .sync, library: library))
    }

    @discardableResult
    func define(
        _ function: UInt32,
        _ source: String,
        use: ScriptUse = .map,
        timeoutMilliseconds: UInt32 = 1_000
    ) throws -> Answer {
        let request = Requests.define(
            function,
            source,
            use: use,
            timeoutMilliseconds: timeoutMilliseconds
        )
        return try send(request)
    }

    func map(_ functions: [UInt32], _ documents: [Document]) throws -> Answer {
        try send(Requests.map(functions, documents))
    }

    /// Maps documents with this JSON text.
    func map(_ functions: [UInt32], _ bodies: String...) throws -> Answer {
        try map(functions, bodies.map { Document(body: $0) })
    }

    /// Maps documents by function 1.
    func map(_ bodies: String...) throws -> Answer {
        try map([1], bodies.map { Document(body: $0) })
    }

    func reduce(
        _ groups: [(keys: String, values: String)],
        isRereduce: Bool = false
    ) throws -> Answer {
        try send(Requests.reduce(1, groups, isRereduce: isRereduce))
    }

    /// Contexts that were made because a function had changed the one before.
    var renewals: Int { worker.renewals }

    /// Calls sync function 1 for documents, each without an old one and for no user.
    func sync(_ documents: String...) throws -> Answer {
        try map([1], documents.map { Document(meta: "[null,null]", body: $0) })
    }

    /// Defines a map function and maps one document.
    func rows(of source: String, _ body: String = "{}") throws -> Answer {
        let defined = try define(source)
        try #require(defined.isDefined, "\(String(describing: defined.complaint))")
        return try map([1], [Document(body: body)])
    }

    private func send(_ request: ByteWriter) throws -> Answer {
        guard
            case .frame(let frame) = ScriptFrame.next(
                in: request.view,
                bytesMax: ScriptLimits.requestBytesMax
            )
        else { throw CancellationError() }
        let output = ByteWriter()
        let sent = ByteWriter()
        func flush() {
            sent.append(output.view)
            output.removeAll()
        }
        worker.handle(try #require(ScriptRequest(frame)), batch: 1, output: output, flush: flush)
        flush()
        var answer = Answer()
        var offset = 0
        while case .frame(let frame) = ScriptFrame.next(
            in: sent.view.dropFirst(offset),
            bytesMax: ScriptLimits.replyBytesMax
        ) {
            #expect(frame.batch == 1)
            try answer.add(frame)
            offset += frame.byteCount
        }
        #expect(offset == sent.count)
        return answer
    }
}
