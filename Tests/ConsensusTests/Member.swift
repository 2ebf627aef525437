import Consensus
import Vocabulary

/// A planted mistake of the driver, to see that the checker notices.
enum Sabotage {
    case none
    /// Says that it is on disk before it is.
    case acknowledgesBeforeSync
    /// After a restart it knows its term, and not whom it voted for.
    case forgetsItsVote
    /// Pre-votes are asked for as if the log were longer than any.
    case preVoteWithoutLogCheck
}

/// One member with its disk and its state: a small driver, as the machine asks for one.
struct Member {
    /// What was applied: how much, and a hash over all of it in order.
    struct Applied: Equatable {
        var index: LogIndex = 0
        var hash: UInt64 = 0

        mutating func take(_ entry: LogEntry) {
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
    /// The state that comes with a snapshot which is on its way in.
    var arriving: Applied?

    init(_ settings: RaftSettings, _ disk: RestoredState, sabotage: Sabotage) {
        self.settings = settings
        self.disk = disk
        self.sabotage = sabotage
        raft = Raft(settings, restoring: disk)
        state.index = disk.snapshot.index
        snapshotState = state
    }

    /// Steps the machine and obeys; what remains is for the world.
    mutating func step(_ event: RaftEvent) -> Ready {
        let ready = raft.step(event)
        if let write = ready.write {
            pending.append(write)
            if write.snapshot != nil, let arriving {
                state = arriving
                self.arriving = nil
            }
        }
        for entry in ready.toApply { state.take(entry) }
        return ready
    }

    /// The disk takes the next `count` writes, at once.
    mutating func sync(_ count: Int) -> RaftEvent? {
        guard count > 0, let last = pending.prefix(count).last else { return nil }
        for write in pending.prefix(count) { take(write) }
        pending.removeFirst(min(count, pending.count))
        return .stored(last.number)
    }

    private mutating func take(_ write: StorageWrite) {
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

    /// The state's snapshot reaches the disk, and the log may begin later.
    mutating func takeSnapshot() -> RaftEvent? {
        // An older one could not be told from what a leader sent.
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

    /// The rows behind the log's base may go.
    mutating func prune() {
        disk.base = raft.log.base
        disk.entries.removeAll { $0.index <= raft.log.base.index }
    }

    /// What was not synced is gone.
    mutating func restart() {
        pending = []
        arriving = nil
        if sabotage == .forgetsItsVote { disk.hardState.vote = 0 }
        raft = Raft(settings, restoring: disk)
        state = snapshotState
        isUp = true
    }
}
