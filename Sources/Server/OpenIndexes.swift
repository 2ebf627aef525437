internal import Bytes
internal import ClusterService
internal import DataService
internal import Indexing
internal import Persistence
internal import Seams
internal import ViewService
internal import Vocabulary

/// The indexes of a node and the responder to queries of them.
struct OpenIndexes: Sendable {
    let service: IndexService
    let responder: QueryResponder
    private let lanes: [any Lane]

    /// Threads that read indexes: more would take processors from clients that read documents.
    private static let lanesMax = 4

    /// - Throws: `StorageError` if the service cannot be opened.
    fileprivate init(
        in directory: String,
        _ environment: Environment,
        _ changes: any DocumentChanges
    ) throws(StorageError) {
        let processors = environment.lanes.reactorCount
        service = try IndexService(
            IndexService.Settings(directory: directory, processors: processors),
            environment: environment,
            changes: changes
        )
        lanes = (0..<min(max(processors, 1), OpenIndexes.lanesMax)).map { _ in
            environment.lanes.makeLane("index-reads")
        }
        responder = QueryResponder(
            QueryResponder.Surroundings(
                environment: environment,
                changes: changes,
                scripts: service.scripts,
                buckets: service
            ),
            lanes: lanes
        )
    }

    /// Answers a query, on any thread.
    func respond(
        to request: QueryRequest,
        _ reply: @escaping @Sendable (QueryReply) -> Void
    ) -> any QueryCall {
        let call = responder.respond(to: request, reply)
        let signature = request.index.choice.wanted
        if service.index(signature, ofBucket: request.bucket) == nil {
            service.whenOpen(
                signature,
                ofBucket: request.bucket,
                nanoseconds: OpenIndexes.openingNanoseconds
            ) { [responder] _ in responder.bucketsChanged() }
        }
        return call
    }

    /// The responder waits less for an index.
    private static let openingNanoseconds: UInt64 = 1_000_000_000

    func follow(_ buckets: [ViewBucket]) {
        service.follow(buckets)
        responder.bucketsChanged()
    }

    /// Ends queries, indexes and script processes.
    func stop() async {
        responder.stop()
        await withUnsafeContinuation { waiter in service.stop { waiter.resume() } }
        service.stopLanes()
        for lane in lanes { lane.stop() }
    }
}

/// Opens the indexes of a node when it gets its first view: their lanes and their directory would be
/// of no use before.
final class IndexOpening: Sendable {
    private struct State {
        var indexes: OpenIndexes?
        /// Why the last attempt failed.
        var failure: String?
        var isStopped = false
    }

    /// The directory of the indexes in a data directory.
    private static let name = "indexes"

    private let directory: String
    private let environment: Environment
    private let changes: any DocumentChanges
    private let state = Guarded(State())

    /// Indexes that are not open yet; `directory` is the node's data directory.
    init(in directory: String, _ environment: Environment, _ data: DocumentService) {
        self.directory = directory
        self.environment = environment
        changes = ViewFeeds(data)
    }

    /// The indexes, if they are open.
    var opened: OpenIndexes? { state.withLock { $0.indexes } }

    /// Why the indexes could not be opened, as a sentence; nil if they could, or need not.
    var failure: String? { state.withLock { $0.failure } }

    /// Whether an earlier run may have left index files.
    var hasFiles: Bool {
        let path = "\(directory)/\(IndexOpening.name)"
        return !((try? environment.disk.list(path)) ?? []).isEmpty
    }

    /// The indexes, opened if they are not; nil once the node stops, or if they cannot be opened.
    func open() -> OpenIndexes? {
        state.withLock { state in
            if state.isStopped || state.indexes != nil { return state.indexes }
            do throws(StorageError) {
                state.indexes = try OpenIndexes(in: directory, environment, changes)
                state.failure = nil
            } catch {
                let failure = "Views do not work on this node: \(error.description)"
                if state.failure != failure { environment.trace.error("views", failure) }
                state.failure = failure
            }
            return state.indexes
        }
    }

    /// Closes the indexes; idempotent.
    func stop() async {
        let indexes = state.withLock { state in
            defer { state.indexes = nil }
            state.isStopped = true
            return state.indexes
        }
        await indexes?.stop()
    }
}
