internal import Bytes
internal import JSON
internal import Revisions
package import ScriptProcesses
package import Seams
internal import Syncing
internal import Wire

/// The sync function of a database, which script processes run.
///
/// Calls of concurrent requests are one batch: while a batch is under way, the next one collects. A call in a
/// batch costs a tenth of a call alone.
package final class SyncFunction: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// Batches under way: the process has a next one while the results of one are handled.
    private static let batchesMax = 2
    /// Beyond it, calls wait for the next batch, so that one request does not delay all others.
    private static let bytesMax = 4 << 20
    private static let failureText = "The document and the one before are too large for a call."

    /// The calls of one request.
    private struct Request {
        let calls: [SyncCall]
        let waiter: UnsafeContinuation<[SyncRun], Never>
        var runs: [SyncRun?]
    }

    private struct Place {
        let request: Int
        let call: Int
    }

    /// JavaScript, and what it may use beside the language.
    package struct Source: Sendable {
        let text: String
        let library: ScriptLibrary?

        package init(_ text: String, library: ScriptLibrary? = nil) {
            self.text = text
            self.library = library
        }
    }

    let database: String
    private let pool: ScriptPool
    private let lane: any Lane
    private let trace: any Trace
    /// Nil if the database has no function: documents name their channels.
    private let function: ScriptFunction?

    /// Calls that were answered, and those of them that failed.
    package private(set) var counts = (calls: 0, failures: 0)
    private var requests: [Int: Request] = [:]
    private var numbers = 0
    private var waiting: [Place] = []
    private var batches = 0
    private var isFlushing = false
    private var isClosed = false

    /// - Parameters:
    ///   - source: Nil for the function `channel(doc.channels)`.
    ///   - database: Its name; functions of two databases never share a process.
    ///   - pool: The processes, on the same lane.
    ///   - environment: Its trace gets failures of the function.
    ///   - lane: Where all calls come from.
    package init(
        _ source: Source?,
        of database: String,
        pool: ScriptPool,
        _ environment: Environment,
        on lane: any Lane
    ) {
        self.database = database
        self.pool = pool
        self.lane = lane
        trace = environment.trace
        function = source.map {
            pool.function(
                $0.text,
                .sync,
                ofBucket: database,
                timeoutMilliseconds: ScriptLimits.mapTimeoutMilliseconds,
                library: $0.library
            )
        }
    }

    /// Runs the function once for each call.
    ///
    /// - Returns: The runs in the order of the calls. A call that ends its process, times out or has too
    ///   large arguments is a failed run.
    func run(_ calls: [SyncCall]) async -> [SyncRun] {
        guard function != nil else { return calls.map(\.runWithoutFunction) }
        return await withUnsafeContinuation { waiter in
            numbers += 1
            let runs = [SyncRun?](repeating: nil, count: calls.count)
            requests[numbers] = Request(calls: calls, waiter: waiter, runs: runs)
            waiting += calls.indices.map { Place(request: numbers, call: $0) }
            flushSoon()
        }
    }

    /// Frees the function once the calls under way are answered: no call comes any more.
    package func close() {
        isClosed = true
        freeIfIdle()
    }

    private func freeIfIdle() {
        if isClosed, requests.isEmpty, let function { pool.forget(function) }
    }

    // MARK: Batches

    /// Sends a batch behind the work that is posted now, as more calls may be in it.
    private func flushSoon() {
        guard !isFlushing, batches < Self.batchesMax, !waiting.isEmpty else { return }
        isFlushing = true
        lane.post { [self] in
            isFlushing = false
            flush()
        }
    }

    private func flush() {
        guard let function, batches < Self.batchesMax, !waiting.isEmpty else { return }
        var work = ScriptWorkWriter(.map, function)
        var places: [Place] = []
        let (document, context) = (ByteWriter(capacity: 4_096), ByteWriter(capacity: 4_096))
        var taken = 0
        for place in waiting {
            guard let call = requests[place.request]?.calls[place.call] else {
                preconditionFailure("a request waits until its last run")
            }
            document.removeAll()
            context.removeAll()
            call.writeDocument(to: document)
            call.writeContext(to: context)
            let size = document.count + context.count
            if !work.hasRoom(for: size) || !places.isEmpty && work.byteCount + size > Self.bytesMax
            {
                guard places.isEmpty else { break }
                taken += 1
                finish(place, SyncRun([], end: .failed(Self.failureText)))
                continue
            }
            context.withView { context in
                document.withView { work.append(first: context, second: $0) }
            }
            places.append(place)
            taken += 1
        }
        waiting.removeFirst(taken)
        guard !places.isEmpty else { return flushSoon() }
        batches += 1
        pool.submit(work.finish(), isAwaited: true) { [self, places] results in
            batches -= 1
            finish(places, results)
            flushSoon()
        }
        flushSoon()
    }

    private func finish(_ places: [Place], _ results: ScriptResults) {
        // Both may have parts of documents, so they are not for an ordinary log.
        for line in results.logs { trace.debug("sync", "Sync function of \(database): \(line)") }
        for (place, run) in zip(places, SyncRun.runs(of: places.count, results)) {
            if case .failed(let text) = run.end {
                trace.debug("sync", "The sync function of \(database) failed: \(text)")
            }
            finish(place, run)
        }
    }

    private func finish(_ place: Place, _ run: SyncRun) {
        guard var request = requests[place.request] else { return }
        request.runs[place.call] = run
        let runs = request.runs.compactMap(\.self)
        guard runs.count == request.calls.count else {
            requests[place.request] = request
            return
        }
        requests[place.request] = nil
        counts.calls += runs.count
        counts.failures += runs.count { $0.isFailed }
        request.waiter.resume(returning: runs)
        freeIfIdle()
    }
}

extension SyncRun {
    fileprivate var isFailed: Bool {
        if case .failed = end { return true }
        return false
    }
}

extension SyncCall {
    /// The run of the function that a database without one has.
    fileprivate var runWithoutFunction: SyncRun {
        let tree = body.json.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        return SyncRun.withoutFunction(channels: tree?["channels"])
    }
}
