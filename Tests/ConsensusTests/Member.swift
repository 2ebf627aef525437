import Consensus
import Vocabulary

/// A planted mistake of the driver, which the checker has to detect.
enum Sabotage {
    case none
    /// Reports writes as stored before they are on disk.
    case acknowledgesBeforeSync
    /// After a restart the member knows its term but not its vote.
    case forgetsItsVote
    /// Pre-vote requests claim a log that is longer than all others.
    case preVoteWithoutLogCheck
}

/// One member with its disk and its state machine: a small driver for `Raft`.
struct Member {
    /// The last applied index, and a hash over all applied entries in order.
    struct Applied: Equatable {
        var index: LogIndex = 0
        var hash: UInt64 = 0

        mutating func apply(_ entry: LogEntry) {
            precondition(entry.index == index + 1, "entries are applied in order")
            index = entry.index
            for number in [entry.term, entry.index, Self.number(of: entry.payload)] {
                hash = (hash ^ number) &* 0x100_0000_01b3
            }
        }

        private static func number(of payload: LogEntry.Payload) -> UInt64 {
            switch payload {
            case .empty: 1
            case .command(let bytes): bytes.reduce(2) { $0 &* 31 &+ UInt64($1) }
            case .configuration(let configuration):
                configuration.voters.reduce(3) { $0 &* 31 &+ UInt64($1.value) }
            }
        }
    }

    let settings: RaftSettings
    let sabotage: Sabotage
    var raft: Raft
    var disk: RestoredState
    var pending: [StorageWrite] = []
    var state = Applied()
    var snapshotState = Applied()
    var isUp = true
    /// The state that came with the snapshot message now being handled; otherwise nil.
    var arriving: Applied?

    init(_ settings: RaftSettings, _ disk: RestoredState, sabotage: Sabotage) {
        self.settings = settings
        self.disk = disk
        self.sabotage = sabotage
        raft = Raft(settings, restoring: disk)
        state.index = disk.snapshot.index
        snapshotState = state
    }

    /// Steps the machine, queues its write and applies entries.
    ///
    /// The caller sends the messages.
    mutating func step(_ event: RaftEvent) -> Ready {
        let ready = raft.step(event)
        if let write = ready.write {
            pending.append(write)
            if write.snapshot != nil, let arriving {
                state = arriving
                self.arriving = nil
            }
        }
        for entry in ready.toApply { state.apply(entry) }
        return ready
    }

    /// Stores the next `count` pending writes.
    ///
    /// Returns the event that reports them, or nil if there are none.
    mutating func sync(_ count: Int) -> RaftEvent? {
        guard count > 0, let last = pending.prefix(count).last else { return nil }
        for write in pending.prefix(count) { store(write) }
        pending.removeFirst(min(count, pending.count))
        return .stored(last.number)
    }

    private mutating func store(_ write: StorageWrite) {
        if let snapshot = write.snapshot {
            disk.snapshot = snapshot
            disk.base = snapshot.position
            disk.entries = []
            snapshotState = state
        }
        if let first = write.entries.first {
            disk.entries.removeAll { $0.index >= first.index }
            disk.entries += write.entries
        }
        if let hardState = write.hardState { disk.hardState = hardState }
    }

    /// Writes a snapshot of the state to disk.
    ///
    /// Returns the event that reports it, or nil if none was written.
    mutating func takeSnapshot() -> RaftEvent? {
        // A pending write may hold a snapshot of the leader, which could not be told from this one.
        guard pending.isEmpty, state.index > disk.snapshot.index,
            let term = raft.log.term(at: state.index),
            raft.log.configurationIndex <= state.index
        else { return nil }
        let description = SnapshotDescription(
            position: LogPosition(term: term, index: state.index),
            configuration: raft.configuration
        )
        disk.snapshot = description
        snapshotState = state
        return .snapshotTaken(description)
    }

    /// Deletes stored entries that the log no longer has.
    mutating func prune() {
        disk.base = raft.log.base
        disk.entries.removeAll { $0.index <= raft.log.base.index }
    }

    /// Restarts from disk: pending writes are lost.
    mutating func restart() {
        pending = []
        arriving = nil
        if sabotage == .forgetsItsVote { disk.hardState.vote = 0 }
        raft = Raft(settings, restoring: disk)
        state = snapshotState
        isUp = true
    }
}
