internal import Bytes
internal import Indexing
internal import Persistence
internal import ScriptProcesses
internal import Seams
internal import Vocabulary

/// An index of the node on its lane: opens the file, and opens it again after an error.
///
/// - A file that is damaged or of another identity is set aside and made anew: an index has nothing
///   that the documents do not have.
/// - Other errors pass: the file is opened again after a pause.
/// - All work with the file is on the index's lane.
final class RunningIndex: Sendable {
    /// The services and settings that all indexes of a service share, except `mapsTombstones`.
    struct Dependencies: Sendable {
        let environment: Environment
        let changes: any DocumentChangePort
        let scripts: ScriptPool
        let checkpoints: any Lane
        let collations: CollationPool
        let builds: IndexBuilds
        let lanes: IndexLanes
        let files: IndexSettings
        let resting: RestingIndexes
        /// Called on the index's lane when it has been opened.
        let opened: @Sendable () -> Void
        /// Whether this index maps tombstones with extended attributes.
        var mapsTombstones = false
    }

    /// The vBuckets, slots and update terms that the service requires of the index.
    struct Wanted {
        var served: Set<VBucketID> = []
        /// The number of the call that `served` is from.
        var number: UInt64 = 0
        var slots: Set<SlotDefinition> = []
        var updates = UpdateSchedule.Terms()
    }

    struct State {
        /// Nil while the file is not open.
        var index: ViewIndex?
        /// Why the file is not open.
        var fault: StorageError?
        /// The error that makes the file useless; nil once the file is set aside or removed.
        var damage: StorageError?
        /// Files that were set aside.
        var asides = 0
        var pause = RunningIndex.pauseNanoseconds
        /// When the file was opened last; 0 before.
        var openedAt: UInt64 = 0
        var wanted = Wanted()
        var hasBegun = false
        var isStopped = false
        var rest: Rest
    }

    private static let pauseNanoseconds: UInt64 = 1_000_000_000
    private static let pauseNanosecondsMax: UInt64 = 60_000_000_000
    /// Files of one index that are kept for analysis; a disk that damages each one must not be filled.
    private static let asidesMax = 2

    let name: IndexName
    /// The bucket and a view, for logs.
    private let title: String
    private let share: IndexLanes.Share
    let function: ScriptFunction
    private let directory: String
    let dependencies: Dependencies
    let state: Guarded<State>

    /// An index whose file is not open; `begin` opens it.
    ///
    /// - Parameters:
    ///   - name: The bucket and the signature.
    ///   - title: The index in logs.
    ///   - directory: The directory of the bucket's indexes; created if it does not exist.
    ///   - function: The map function.
    ///   - dependencies: What all indexes of the service share.
    init(
        _ name: IndexName,
        _ title: String,
        in directory: String,
        function: ScriptFunction,
        dependencies: Dependencies
    ) {
        self.name = name
        self.title = title
        self.directory = directory
        self.function = function
        self.dependencies = dependencies
        state = Guarded(State(rest: Rest(rule: RestRule(dependencies.resting.limits))))
        share = dependencies.lanes.acquire()
    }

    /// Opens the file, which takes a while; has no effect after the first call.
    ///
    /// The vBuckets that this node serves must be set before: an index removes the rows of all others.
    func begin() {
        let isFirst = state.withLock { !exchange(&$0.hasBegun, with: true) }
        if isFirst { lane.post { [self] in open() } }
    }

    // MARK: From any thread

    /// Where the index works; other indexes may work there, too.
    var lane: any Lane { share.lane }

    /// Ends the index's use of its lane; call it once, after `stop` has called `done`.
    func releaseLane() { dependencies.lanes.release(share) }

    /// The index; nil while its file is not open.
    var index: ViewIndex? { state.withLock { $0.index } }

    /// Why the index gets no further changes; nil if it does.
    var fault: String? {
        let (index, fault) = state.withLock { ($0.index, $0.fault) }
        return index?.fault ?? fault?.description
    }

    /// Why the file is not open, with the cure, for clients of queries; nil while it is open or is
    /// opened for the first time.
    var obstacle: String? {
        let (index, fault) = state.withLock { ($0.index, $0.fault) }
        guard index == nil, let fault else { return nil }
        return
            "The index of \(title) is not open: \(fault.cause). The log of its node has the details."
            + " Remove the cause; the node opens the index again within"
            + " \(RunningIndex.pauseNanosecondsMax / 1_000_000_000) s."
    }

    /// Sets the vBuckets that this node serves; a call with a lower number than an earlier one is
    /// ignored.
    func serve(_ served: Set<VBucketID>, number: UInt64) {
        let isChanged = state.withLock { state in
            guard number > state.wanted.number else { return false }
            state.wanted.number = number
            return exchange(&state.wanted.served, with: served) != served
        }
        guard isChanged else { return }
        wake()
        tell { $0.serve($1.served) }
    }

    /// Sets the reductions whose results the index stores; called by one thread.
    func store(_ slots: Set<SlotDefinition>) {
        guard change(\.slots, to: slots) else { return }
        wake()
        tell { $0.setSlots(Array($1.slots)) }
    }

    /// Sets when the index reads changes; called by one thread.
    func update(by updates: UpdateSchedule.Terms) {
        guard change(\.updates, to: updates) else { return }
        tell { $0.setSchedule($1.updates) }
    }

    /// Returns whether the value was another one.
    private func change<Value: Equatable>(
        _ place: WritableKeyPath<Wanted, Value>,
        to value: Value
    ) -> Bool {
        state.withLock { state in
            defer { state.wanted[keyPath: place] = value }
            return state.wanted[keyPath: place] != value
        }
    }

    /// Tells the index, if it is open, what is wanted by then.
    private func tell(_ body: @escaping @Sendable (ViewIndex, Wanted) -> Void) {
        lane.post { [self] in
            let (index, wanted) = state.withLock { ($0.index, $0.wanted) }
            if let index { body(index, wanted) }
        }
    }

    /// Closes the index, then calls `done` on its lane; the file keeps its log if the node stops.
    func stop(keepsLog: Bool, done: @escaping @Sendable () -> Void) {
        lane.post { [self] in
            let index = state.withLock { state in
                state.isStopped = true
                return exchange(&state.index, with: nil)
            }
            dependencies.resting.remove(name)
            if index != nil { dependencies.resting.countClosed() }
            index?.stop(keepsLog: keepsLog)
            // Runs after the file is closed.
            lane.post(done)
        }
    }

    /// Passes what is reported of the index to `done`, on its lane; of an index at rest at once.
    func report(_ done: @escaping @Sendable (IndexReport) -> Void) {
        if let known = state.withLock({ $0.rest.isResting ? $0.rest.report : nil }) {
            return done(known)
        }
        lane.post { [self] in done(report(of: index)) }
    }

    /// The report on the index, with its fault and sizes; on its lane.
    func report(of index: ViewIndex?) -> IndexReport {
        var report = IndexReport(bucket: name.bucket, signature: name.signature)
        report.fault = fault
        guard let index else { return report }
        report.isOpen = true
        report.status = index.status
        report.memoryBytes = index.file.memoryBytes + index.keptBytes
        // A file that has failed has its fault.
        (report.fileBytes, report.usedBytes) = (try? index.file.pageBytes()) ?? (0, 0)
        let disk = dependencies.environment.disk
        for suffix in ["", "-wal"] {
            report.diskBytes += (try? disk.size(index.file.path + suffix)) ?? 0
        }
        return report
    }

    // MARK: Opening

    func open() {
        guard !state.withLock({ $0.isStopped || $0.index != nil }) else { return }
        dependencies.resting.remove(name)
        do throws(StorageError) {
            let index = try makeIndex()
            let now = dependencies.environment.time.monotonicNanoseconds()
            let (wanted, health) = state.withLock { state in
                state.index = index
                state.fault = nil
                state.openedAt = now
                state.rest.isResting = false
                state.rest.report = nil
                state.rest.rule.opened(now: now)
                return (state.wanted, exchange(&state.rest.health, with: nil))
            }
            dependencies.resting.countOpened()
            if let health { index.resume(health) }
            index.setSchedule(wanted.updates)
            index.serve(wanted.served)
            index.setSlots(Array(wanted.slots))
            index.startTicking()
            dependencies.opened()
        } catch {
            retry(error)
        }
    }

    private func makeIndex() throws(StorageError) -> ViewIndex {
        let directory = try IndexDirectory(path: directory, disk: dependencies.environment.disk)
        if let damage = state.withLock({ $0.damage }) { try replace(damage, in: directory) }
        do throws(StorageError) {
            return try makeIndex(in: directory)
        } catch {
            guard error.concernsContent else { throw error }
            try replace(error, in: directory)
            return try makeIndex(in: directory)
        }
    }

    private func makeIndex(in directory: IndexDirectory) throws(StorageError) -> ViewIndex {
        let identity = IndexIdentity(
            signature: name.signature.description,
            collator: IndexService.collationVersion,
            bucketUUID: name.bucket,
            mapSource: function.source
        )
        let file = try IndexFile(in: directory, identity: identity, settings: dependencies.files)
        var own = ViewIndex.Dependencies(
            environment: dependencies.environment,
            changes: dependencies.changes,
            scripts: dependencies.scripts,
            lane: lane
        )
        own.checkpoints = dependencies.checkpoints
        own.collations = dependencies.collations
        own.builds = dependencies.builds
        own.mapsTombstones = dependencies.mapsTombstones
        own.ticked = { [weak self] isQuiet in self?.checkRest(isQuiet: isQuiet) }
        own.failed = { [weak self] error in self?.failed(error) }
        do throws(StorageError) {
            return try ViewIndex(
                title,
                ofBucket: name.bucket,
                file: file,
                function: function,
                dependencies: own
            )
        } catch {
            // Its error is the later one, of a file that is set aside.
            try? file.close()
            throw error
        }
    }

    /// Sets the file aside, so that a new one is made.
    private func replace(_ error: StorageError, in directory: IndexDirectory) throws(StorageError) {
        let isKept = state.withLock { $0.asides < RunningIndex.asidesMax }
        let signature = name.signature.description
        var path: String?
        if isKept {
            let seconds = dependencies.environment.time.wallNanoseconds() / 1_000_000_000
            path = try directory.setAside(signature, now: seconds)
        } else {
            try directory.remove(signature)
        }
        state.withLock { state in
            state.damage = nil
            if path != nil { state.asides += 1 }
        }
        dependencies.environment.trace.error(
            "views",
            "Index \(title) cannot use its file: \(error.description). The file was "
                + (path.map { "renamed to \($0)" } ?? "removed")
                + ". The index is built anew from the documents, for which stale=false waits."
        )
    }

    // MARK: Errors

    /// The open index is of no use any more.
    private func failed(_ error: StorageError) {
        let index = state.withLock { state in
            state.fault = error
            if error.concernsContent { state.damage = error }
            return exchange(&state.index, with: nil)
        }
        if index != nil { dependencies.resting.countClosed() }
        index?.stop()
        guard error.concernsContent else { return retry(error) }
        // Runs after the file is closed.
        lane.post { [self] in open() }
    }

    private func retry(_ error: StorageError) {
        let now = dependencies.environment.time.monotonicNanoseconds()
        let pause = state.withLock { state -> UInt64? in
            state.fault = error
            state.rest.isResting = false
            guard !state.isStopped else { return nil }
            // The errors before belong to another cause.
            let wasOpen = state.openedAt > 0 && now - state.openedAt >= state.pause
            if wasOpen { state.pause = RunningIndex.pauseNanoseconds }
            state.openedAt = 0
            defer { state.pause = min(2 * state.pause, RunningIndex.pauseNanosecondsMax) }
            return state.pause
        }
        guard let pause else { return }
        dependencies.environment.trace.error(
            "views",
            "Index \(title) is not open: \(error.description). Until it is, queries of its views "
                + "fail. It is opened again in \(pause / 1_000_000_000) s."
        )
        lane.post(after: pause) { [weak self] in self?.open() }
    }
}

extension StorageError {
    /// Why a file cannot be opened, without its path, which is not for clients.
    fileprivate var cause: String {
        switch code {
        case .full: "the disk has no room, or the node has no free file descriptor"
        case .denied: "the permissions of its file do not allow it"
        case .missing: "its directory does not exist"
        case .busy: "another process has its file"
        case .damaged, .foreign, .otherFormat: "its file cannot be used and is being replaced"
        case .failed, .gone, .quarantined: "a read or a write of its file failed"
        }
    }

    /// Whether the file is useless, so that another attempt with it fails as well.
    var concernsContent: Bool {
        switch code {
        case .damaged, .foreign, .otherFormat: true
        case .full, .failed, .denied, .missing, .busy, .gone, .quarantined: false
        }
    }
}
