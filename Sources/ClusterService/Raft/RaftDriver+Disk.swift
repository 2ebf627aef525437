internal import Consensus
package import Persistence
internal import Seams
internal import Vocabulary

/// The writes that wait for the disk, in order.
struct DiskQueue {
    struct Item: Sendable {
        /// Runs on the disk's lane, because encoding a state takes time.
        var changes: @Sendable () -> [ControlChange]
        /// Whether to read the newest snapshot after these changes.
        var readsSnapshot = false
        /// Called on the control lane with the result.
        var done: @Sendable (Result<ControlSnapshot?, StorageError>) -> Void
    }

    /// The most items in one transaction, so that the first does not wait long for the last.
    static let groupMax = 256
    /// The pause between checks whether a failed disk works again.
    static let retryNanoseconds: UInt64 = 1_000_000_000
    /// A write that takes longer delays all decisions and is logged.
    static let slowNanoseconds: UInt64 = 2_000_000_000

    var items: [Item] = []
    /// Since when a write is under way; nil if none is.
    var busySince: UInt64?
    var isBusy: Bool { busySince != nil }
    /// Whether writes are carried out synchronously: while a node starts.
    var isInline = false
    /// Counts restarts of the driver: results of writes from before a restart are ignored.
    var life: UInt64 = 0

    mutating func removeGroup() -> [Item] {
        var count = 0
        for item in items.prefix(Self.groupMax) {
            count += 1
            if item.readsSnapshot { break }
        }
        defer { items.removeFirst(count) }
        return Array(items.prefix(count))
    }
}

extension RaftDriver {
    /// Stores other services' changes, after everything that was requested before.
    package func keep(
        _ changes: [ControlChange],
        done: @escaping @Sendable (Result<Void, ClusterError>) -> Void
    ) {
        if case .running = life {
            disk.items.append(
                DiskQueue.Item(changes: { changes }) { result in
                    let result = result.map { _ in () }.mapError { ClusterError($0) }
                    self.callbacks.append { done(result) }
                }
            )
            return run()
        }
        let text = failureText ?? "the node is stopping"
        done(.failure(ClusterError(code: .disk, description: text)))
    }

    /// Stores the commit index now instead of with the next entry, which may be much later: a node
    /// that restarts meanwhile would not know its newest bucket until other nodes answer.
    func keepCommit() {
        guard let state = unkeptCommit else { return }
        commitKept = state.commit
        // If this write fails, so does the next one, whose failure is handled.
        disk.items.append(DiskQueue.Item(changes: { [.hardState(state)] }) { _ in })
    }

    /// Stores the commit index before the driver stops, synchronously: the caller may begin another
    /// history in the same store right after.
    func keepLastCommit() {
        guard let state = unkeptCommit else { return }
        do throws(StorageError) {
            try store.commit([.hardState(state)])
        } catch {
            environment.trace.warning("cluster", error.description)
        }
    }

    /// The commit index if it is neither stored nor being stored; nil otherwise.
    private var unkeptCommit: ControlHardState? {
        guard case .running = life, raft.commit > commitKept, disk.items.isEmpty, !disk.isBusy
        else { return nil }
        return ControlHardState(
            term: raft.term,
            vote: raft.vote?.value ?? 0,
            commit: raft.commit
        )
    }

    func keep(_ write: StorageWrite) {
        if let commit = write.hardState?.commit { commitKept = max(commitKept, commit) }
        recordPromises(write)
        let number = write.number
        let snapshot = write.snapshot
        if snapshot != nil { snapshots.isInstalling = true }
        disk.items.append(
            DiskQueue.Item(
                changes: { RaftStorage.changes(write) },
                readsSnapshot: snapshot != nil
            ) { result in
                guard case .success(let stored) = result else { return }
                if let stored { self.install(stored) }
                self.enqueue(.stored(number))
            }
        )
    }

    /// Starts the next write if none is under way.
    func pumpDisk() {
        guard !disk.isBusy, !disk.items.isEmpty else { return }
        let group = disk.removeGroup()
        disk.busySince = now
        let (store, life) = (store, disk.life)
        if disk.isInline { return finish(group, Self.carryOut(group, store), life) }
        diskLane.post {
            let result = Self.carryOut(group, store)
            self.lane.post {
                self.finish(group, result, life)
                self.run()
            }
        }
    }

    private static func carryOut(
        _ group: [DiskQueue.Item],
        _ store: ControlStore
    ) -> Result<ControlSnapshot?, StorageError> {
        do throws(StorageError) {
            let changes = group.flatMap { $0.changes() }
            if !changes.isEmpty { try store.commit(changes) }
            return .success(group.last?.readsSnapshot == true ? try store.snapshot() : nil)
        } catch {
            return .failure(error)
        }
    }

    private func finish(
        _ group: [DiskQueue.Item],
        _ result: Result<ControlSnapshot?, StorageError>,
        _ life: UInt64
    ) {
        guard life == disk.life else {
            // The driver restarted since; callers must still learn that the write may be missing.
            let late = StorageError(.failed, "the node restarted from its disk meanwhile; retry")
            for item in group { item.done(.failure(late)) }
            return
        }
        logSlowWrite()
        disk.busySince = nil
        for (place, item) in group.enumerated() {
            switch result {
            case .success(let snapshot):
                item.done(.success(place == group.count - 1 ? snapshot : nil))
            case .failure(let error): item.done(.failure(error))
            }
        }
        if case .failure(let error) = result { fail(error.description) }
        if case .running = self.life, lastFailure != nil {
            lastFailure = nil
            environment.trace.info("cluster", "This node takes part in decisions again.")
        }
    }

    private func logSlowWrite() {
        guard let since = disk.busySince else { return }
        let took = now - min(now, since)
        guard took >= DiskQueue.slowNanoseconds else { return }
        let text =
            "The disk took \(took / 1_000_000) ms to store a decision of the cluster. Until such a "
            + "write ends, this node takes part in no decision. Check the disk's load and health."
        environment.trace.warning("cluster", text)
    }

    func dropDisk(_ error: ClusterError) {
        let items = disk.items
        disk.items = []
        disk.life += 1
        disk.busySince = nil
        let failure = StorageError(.failed, error.description)
        for item in items { item.done(.failure(failure)) }
    }

    // MARK: A disk that fails

    var failureText: String? {
        guard case .failing(let text) = life else { return nil }
        return text
    }

    /// Stops taking part after a disk error, as after a crash: what was not stored is dropped.
    func fail(_ reason: String) {
        if case .stopped = life { return }
        let text =
            "This node takes no part in the cluster's decisions, because it cannot store them: "
            + "\(reason). Check the disk. The node retries every second."
        life = .failing(text)
        if lastFailure != text { environment.trace.error("cluster", text) }
        lastFailure = text
        forgetSteps()
        let error = ClusterError(code: .disk, description: reason)
        dropDisk(error)
        endTransfers()
        let voters = raft.configuration.electorate
        // If this node is the only voter, no other node can have what was not stored.
        if voters == [settings.node] { failAllCallers(error) } else { failChanges(error) }
        proposals.sendAgain()
        reads.askAgain()
        scheduleRecovery()
    }

    private func scheduleRecovery() {
        guard timers.recovery == nil else { return }
        timers.recovery = lane.post(after: DiskQueue.retryNanoseconds) {
            self.timers.recovery = nil
            self.recover()
            self.run()
        }
    }

    /// Reads the disk again and writes to it; if both succeed, the driver restarts from what it
    /// read.
    func recover() {
        guard case .failing = life, !disk.isBusy else { return }
        disk.busySince = now
        let (store, life) = (store, disk.life)
        let probe: @Sendable () -> Result<(RestoredState, [UInt8]), ClusterError> = {
            do throws(ClusterError) {
                let read = try Self.read(store)
                let state = read.raft.hardState
                let same = ControlHardState(
                    term: state.term,
                    vote: state.vote,
                    commit: state.commit
                )
                do throws(StorageError) {
                    try store.commit([.dropStaged, .hardState(same)])
                } catch {
                    throw ClusterError(error)
                }
                return .success((read.raft, read.state))
            } catch {
                return .failure(error)
            }
        }
        diskLane.post {
            let result = probe()
            self.lane.post {
                guard life == self.disk.life else { return }
                self.disk.busySince = nil
                switch result {
                case .failure(let error): self.fail(error.description)
                case .success(let (raft, state)): self.beginAgain(raft, state)
                }
                self.run()
            }
        }
    }

    private func beginAgain(_ restored: RestoredState, _ bytes: [UInt8]) {
        let isNews = restored.snapshot.index > applied
        if isNews {
            do {
                try restore(bytes, at: restored.snapshot.index)
            } catch {
                return fail(error.description)
            }
        }
        raft = Raft(settings.raft, restoring: restored)
        // Writes under way when the disk failed may be missing.
        commitKept = restored.hardState.commit
        life = .running
        if isNews { restorePromises() }
        recordLog()
        if raft.configuration.electorate == [settings.node] { enqueue(.campaign) }
    }
}
