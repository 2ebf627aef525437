internal import Bytes
internal import Persistence
internal import ScriptProcesses
internal import Seams
internal import Wire

/// Runs the indexes that the followed buckets need, and removes the files of the others.
///
/// - An index whose file is being closed or removed is not opened again before that is done.
/// - The file of an index that no view needs is kept for a while: a definition that returns soon
///   finds it.
/// - All work is on the keeper's lane: it waits for the disk.
final class IndexKeeper: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// How long the lane of a closed index ends calls of queries that still have the index.
    private static let lingerNanoseconds: UInt64 = 1_000_000_000

    /// State that any thread may access.
    private struct Shared {
        var running: [IndexName: RunningIndex] = [:]
        /// Counts the calls of `adopt`.
        var number: UInt64 = 0
    }

    /// The files of indexes that do not run.
    private struct Files {
        /// When the index was closed because no view needed it.
        var unnamed: [IndexName: UInt64] = [:]
        /// Buckets whose directories have no unknown files.
        var cleaned: Set<String> = []
        /// Whether there may be a directory of a bucket that is gone, or one with unknown files.
        var needCleaning = true
        /// Whether another attempt is due later.
        var isRetrying = false
    }

    /// Indexes that are stopped.
    private struct Ending {
        var closing: [IndexName: RunningIndex] = [:]
        /// Closed indexes whose lanes still answer, in the order in which they were closed.
        var lingering: [RunningIndex] = []
    }

    /// The directory of all indexes.
    private let root: String
    private let settings: IndexService.Settings
    private let dependencies: RunningIndex.Dependencies
    private let lane: any Lane
    private let shared = Guarded(Shared())
    private var wanted: [String: ViewedBucket] = [:]
    /// The number of the call that `wanted` is from.
    private var wantedNumber: UInt64 = 0
    private var terms = IndexTerms()
    private var ending = Ending()
    private var files = Files()
    private var records: SuccessionFiles
    /// Called when all indexes are closed; nil while the keeper works.
    private var stopped: (@Sendable () -> Void)?

    init(
        _ root: String,
        _ settings: IndexService.Settings,
        records: SuccessionFiles,
        lane: any Lane,
        dependencies: RunningIndex.Dependencies
    ) {
        self.root = root
        self.settings = settings
        self.records = records
        self.lane = lane
        self.dependencies = dependencies
    }

    private var environment: Environment { dependencies.environment }
    private var now: UInt64 { environment.time.monotonicNanoseconds() }

    // MARK: From any thread

    /// The index, if it runs.
    subscript(name: IndexName) -> RunningIndex? { shared.withLock { $0.running[name] } }

    var running: [RunningIndex] { shared.withLock { Array($0.running.values) } }

    /// Replaces the buckets; calls must not overlap.
    func adopt(_ buckets: [String: ViewedBucket]) {
        let (number, running) = shared.withLock { shared in
            shared.number += 1
            return (shared.number, shared.running)
        }
        // At once, although the lane may be busy with files.
        for (name, index) in running {
            guard let bucket = buckets[name.bucket] else { continue }
            index.serve(bucket.bucket.served, number: number)
        }
        lane.post { [self] in
            if Set(wanted.keys) != Set(buckets.keys) { files.needCleaning = true }
            (wanted, wantedNumber) = (buckets, number)
            reconcile()
        }
    }

    /// Replaces the settings of all indexes.
    func set(_ terms: IndexTerms) {
        lane.post { [self] in
            self.terms = terms
            reconcile()
        }
    }

    /// Closes all indexes, then calls `done` on the keeper's lane.
    func stop(done: @escaping @Sendable () -> Void) {
        lane.post { [self] in
            guard stopped == nil else { return done() }
            stopped = done
            for index in running { close(index) }
            finishStop()
        }
    }

    // MARK: Indexes

    private func reconcile() {
        guard stopped == nil else { return }
        for index in running where plan(index.name) == nil { close(index) }
        for (uuid, bucket) in wanted {
            for (signature, plan) in bucket.indexes {
                let name = IndexName(bucket: uuid, signature: signature)
                guard ending.closing[name] == nil else { continue }
                let index = self[name] ?? start(name, plan, inBucket: bucket.bucket)
                index.serve(bucket.bucket.served, number: wantedNumber)
                index.store(plan.slots)
                index.update(by: terms.updates(plan))
                index.begin()
            }
        }
        if files.needCleaning { clean() }
        store()
    }

    /// Stores which definitions answer, for the next run of the node.
    private func store() {
        records.keep(Set(wanted.keys))
        for (uuid, bucket) in wanted {
            do throws(StorageError) {
                try records.store(bucket.succession, ofBucket: uuid)
            } catch {
                // The next change stores them.
                environment.trace.warning("views", "Cannot store definitions: \(error.description)")
            }
        }
    }

    private func plan(_ name: IndexName) -> ViewedBucket.Plan? {
        wanted[name.bucket]?.indexes[name.signature]
    }

    private func start(
        _ name: IndexName,
        _ plan: ViewedBucket.Plan,
        inBucket bucket: ViewBucket
    ) -> RunningIndex {
        files.unnamed[name] = nil
        let view =
            (plan.views + plan.changedViews).first.map { "\($0.designDocument)/\($0.view)" } ?? ""
        var own = dependencies
        own.mapsTombstones = plan.mapsTombstones
        let index = RunningIndex(
            name,
            "\(bucket.name)/\(view)",
            in: path(name.bucket),
            function: dependencies.scripts.function(
                plan.map,
                .map,
                ofBucket: name.bucket,
                timeoutMilliseconds: settings.mapTimeoutMilliseconds
            ),
            dependencies: own
        )
        shared.withLock { $0.running[name] = index }
        return index
    }

    private func close(_ index: RunningIndex) {
        shared.withLock { $0.running[index.name] = nil }
        ending.closing[index.name] = index
        // A stopping node closes all indexes at once: their logs are copied when they are next large.
        index.stop(keepsLog: stopped != nil) { [weak self] in
            guard let self else { return }
            lane.post { self.closed(index) }
        }
    }

    /// The file of an index is closed.
    private func closed(_ index: RunningIndex) {
        ending.closing[index.name] = nil
        dependencies.scripts.forget(index.function)
        ending.lingering.append(index)
        guard stopped == nil else { return finishStop() }
        lane.post(after: IndexKeeper.lingerNanoseconds) { [weak self] in
            guard let self, let place = ending.lingering.firstIndex(where: { $0 === index }) else {
                return
            }
            ending.lingering.remove(at: place).releaseLane()
        }
        if wanted[index.name.bucket] == nil {
            files.needCleaning = true
        } else {
            files.unnamed[index.name] = now
            lane.post(after: settings.graceNanoseconds) { [weak self] in self?.sweep() }
        }
        // Its definition may have returned meanwhile.
        reconcile()
    }

    private func finishStop() {
        guard ending.closing.isEmpty else { return }
        for index in ending.lingering { index.releaseLane() }
        ending.lingering = []
        stopped?()
    }

    // MARK: Files

    private func path(_ uuid: String) -> String { "\(root)/\(uuid)" }

    /// The signatures of a bucket whose files are in use.
    private func inUse(_ uuid: String) -> Set<String> {
        let names = running.map(\.name) + ending.closing.keys
        return Set(names.filter { $0.bucket == uuid }.map { "\($0.signature)" })
    }

    /// Removes the directories of buckets that are gone and, once for each bucket, unknown files.
    private func clean() {
        files.needCleaning = false
        files.cleaned.formIntersection(wanted.keys)
        files.unnamed = files.unnamed.filter { wanted[$0.key.bucket] != nil }
        do {
            for uuid in try environment.disk.list(root) {
                if wanted[uuid] != nil {
                    try cleanDirectory(uuid)
                } else if inUse(uuid).isEmpty {
                    try environment.disk.remove(path(uuid))
                    environment.trace.info("views", "Removed the indexes of bucket \(uuid)")
                }
            }
        } catch {
            retryCleaning("\(error)")
        }
    }

    private func cleanDirectory(_ uuid: String) throws(StorageError) {
        guard files.cleaned.insert(uuid).inserted else { return }
        let directory = try IndexDirectory(path: path(uuid), disk: environment.disk)
        let kept = files.unnamed.keys.filter { $0.bucket == uuid }.map { "\($0.signature)" }
        log(try directory.removeAll(except: inUse(uuid).union(kept)), uuid)
    }

    private func log(_ removed: [String], _ uuid: String) {
        guard !removed.isEmpty else { return }
        environment.trace.info(
            "views",
            "Removed index files of bucket \(uuid) that no view needs: "
                + removed.joined(separator: ", ")
        )
    }

    private func retryCleaning(_ cause: String) {
        guard !files.isRetrying else { return }
        files.isRetrying = true
        environment.trace.warning("views", "Cannot remove index files yet: \(cause)")
        lane.post(after: settings.graceNanoseconds) { [weak self] in
            guard let self, stopped == nil else { return }
            files.isRetrying = false
            files.cleaned = []
            clean()
            sweep()
        }
    }

    /// Removes the files of indexes that no view has needed for a while.
    private func sweep() {
        guard stopped == nil else { return }
        let now = now
        for (name, since) in files.unnamed where now - since >= settings.graceNanoseconds {
            guard wanted[name.bucket] != nil else { continue }
            let signature = "\(name.signature)"
            do throws(StorageError) {
                let directory = try IndexDirectory(path: path(name.bucket), disk: environment.disk)
                // Include the set-aside files of this index.
                let others = Set(try directory.signatures()).union(inUse(name.bucket))
                log(try directory.removeAll(except: others.subtracting([signature])), name.bucket)
                files.unnamed[name] = nil
            } catch {
                retryCleaning(error.description)
            }
        }
    }
}
