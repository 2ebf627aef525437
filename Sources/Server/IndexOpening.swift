internal import Bytes
internal import ClusterService
internal import DataService
internal import Persistence
internal import Seams
internal import ViewService

/// Opens the index service of a node when the node gets its first view: its lanes and its directory
/// would be of no use before.
final class IndexOpening: Sendable {
    private struct State {
        var service: IndexService?
        /// Why the last attempt failed.
        var failure: String?
        var isStopped = false
        /// Called after the service was opened; nil for nothing.
        var opened: (@Sendable () -> Void)?
    }

    /// The directory of the indexes in a data directory.
    private static let name = "indexes"

    private let directory: String
    private let environment: Environment
    private let changes: any DocumentChangePort
    let programs: ScriptPrograms
    private let state = Guarded(State())

    /// A service that is not open yet, of a node with these settings.
    init(_ settings: NodeSettings, _ environment: Environment, data: DocumentService) {
        directory = settings.directory
        self.environment = environment
        changes = ViewFeeds(data: data)
        programs = ScriptPrograms(
            environment,
            allowsUnfiltered: settings.allowsUnfilteredScripts
        )
    }

    /// Applies an order; returns whether this node has the document's indexes.
    func apply(_ order: ViewCompactionOrder) -> Bool {
        guard let service else { return false }
        let (document, bucket) = (order.designDocument, order.bucket)
        return order.isCancellation
            ? service.cancelCompaction(document, ofBucket: bucket)
            : service.compact(document, ofBucket: bucket)
    }

    /// The service, if it is open.
    var service: IndexService? { state.withLock { $0.service } }

    /// The indexes whose files are open.
    var openIndexCount: Int { service?.openIndexCount ?? 0 }

    /// Why the service could not be opened, as a sentence; nil if it could, or need not.
    var failure: String? { state.withLock { $0.failure } }

    /// Whether an earlier run may have left index files.
    var hasFiles: Bool {
        let path = "\(directory)/\(IndexOpening.name)"
        return !((try? environment.disk.list(path)) ?? []).isEmpty
    }

    /// Calls `opened` when the service has been opened, on the thread that opened it.
    func whenOpened(_ opened: @escaping @Sendable () -> Void) {
        state.withLock { $0.opened = opened }
    }

    /// The service, opened if it is not; nil once the node stops, or if it cannot be opened.
    func open() -> IndexService? {
        let (service, opened) = opening()
        opened?()
        return service
    }

    /// The service as of `open`, and what to call if it was not open before.
    private func opening() -> (service: IndexService?, opened: (@Sendable () -> Void)?) {
        state.withLock { state in
            if state.isStopped || state.service != nil { return (state.service, nil) }
            do throws(StorageError) {
                var settings = IndexService.Settings(
                    directory: directory,
                    processors: environment.lanes.reactorCount
                )
                settings.allowsUnfilteredScripts = programs.allowsUnfiltered
                state.service = try IndexService(
                    settings,
                    environment: environment,
                    changes: changes
                )
                state.failure = nil
            } catch {
                let failure = "Views do not work on this node: \(error.description)"
                if state.failure != failure { environment.trace.error("views", failure) }
                state.failure = failure
            }
            return (state.service, state.service.flatMap { _ in state.opened })
        }
    }

    /// Ends queries, indexes and script processes; idempotent.
    func stop() async {
        let service = state.withLock { state in
            defer { state.service = nil }
            state.isStopped = true
            return state.service
        }
        guard let service else { return }
        await withUnsafeContinuation { waiter in service.stop { waiter.resume() } }
        service.stopLanes()
    }
}
