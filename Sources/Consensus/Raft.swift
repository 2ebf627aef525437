package import Vocabulary

/// How a member behaves; the same for all members of a group.
package struct RaftSettings: Hashable, Sendable {
    package var node: NodeNumber
    /// Ticks without a leader before a member stands for election: this many, up to twice as many.
    package var electionTicks = 4
    package var heartbeatTicks = 1
    /// Bytes of entries in one append: as much as arrives well within an election timeout.
    package var appendBytesMax = 256 << 10
    /// Appends on their way to one member: with the bytes above it bounds what a slow one costs.
    package var appendsInFlightMax = 64
    /// Bytes that were proposed and are not committed: beyond it proposals are refused.
    package var uncommittedBytesMax = 16 << 20
    /// Entries that stay when the log is compacted, so that a follower a little behind needs no
    /// snapshot.
    package var entriesKept: UInt64 = 1_000

    package init(node: NodeNumber) {
        self.node = node
    }
}

/// What a member finds on its disk.
package struct RestoredState: Sendable {
    package var hardState: HardState
    package var snapshot: SnapshotDescription
    /// The entry before the first stored one; the snapshot's own position where none was kept.
    package var base: LogPosition?
    package var entries: [LogEntry]

    package init(
        hardState: HardState = HardState(),
        snapshot: SnapshotDescription,
        base: LogPosition? = nil,
        entries: [LogEntry] = []
    ) {
        self.hardState = hardState
        self.snapshot = snapshot
        self.base = base
        self.entries = entries
    }
}

package enum Role: Hashable, Sendable {
    /// Can become: pre-candidate, candidate (when told to).
    case follower
    /// Asks whether it would win. Can become: candidate, follower.
    case preCandidate
    /// Can become: leader, follower.
    case candidate
    /// Can become: follower.
    case leader
}

/// One member of a Raft group (Ongaro's thesis), as a machine: `step` says what came in, and is
/// told what to store, to send and to apply.
///
/// Storage is asynchronous throughout: nothing is durable because it was handed out. What must not
/// be said before it is on disk (a vote, an acknowledgement, the leader's own share of a majority)
/// waits in here for the driver's `stored`; heartbeats never wait, so a slow disk deposes nobody.
///
/// - Term and vote are on disk before any message that rests on them leaves.
/// - Terms and the commit index never fall.
/// - The configuration in force is the newest in the log, committed or not.
package struct Raft: Sendable {
    package let settings: RaftSettings
    package internal(set) var term: Term
    package internal(set) var vote: NodeNumber?
    package internal(set) var role = Role.follower
    package internal(set) var leader: NodeNumber?
    package internal(set) var log: RaftLog
    var timers = Timers()
    /// What voters answered in the election that runs.
    var votes: [NodeNumber: Bool] = [:]
    var leading = LeadershipState()
    var following = FollowerState()
    var outbox: Outbox
    /// From here on this member acknowledges nothing, its own entries as leader included.
    var withheldFrom: LogIndex?

    package init(_ settings: RaftSettings, restoring state: RestoredState) {
        precondition(settings.electionTicks > settings.heartbeatTicks, "elections outwait beats")
        self.settings = settings
        term = state.hardState.term
        vote = state.hardState.vote == 0 ? nil : NodeNumber(state.hardState.vote)
        log = RaftLog(snapshot: state.snapshot, base: state.base, entries: state.entries)
        log.commit(to: min(state.hardState.commit, log.lastIndex))
        outbox = Outbox(saved: state.hardState)
    }

    package var node: NodeNumber { settings.node }
    package var commit: LogIndex { log.commit }
    package var configuration: VoterConfiguration { log.configuration }
    package var isLeader: Bool { role == .leader }

    /// How far this member may be counted in a majority.
    var acknowledgeable: LogIndex {
        guard let withheldFrom else { return log.durable }
        return min(log.durable, max(withheldFrom, 1) - 1)
    }

    /// What the leader believes of each member, in order; empty on the others.
    package var progress: [(node: NodeNumber, progress: Progress)] {
        leading.members.compactMap { node in leading.progress[node].map { (node, $0) } }
    }
}

/// Ticks since things happened.
struct Timers: Sendable {
    var election = 0
    var heartbeat = 0
    /// Drawn anew for each wait, from the dice that come with a tick.
    var timeout: Int?

    mutating func reset() {
        election = 0
        heartbeat = 0
        timeout = nil
    }
}

/// What only a leader has.
struct LeadershipState: Sendable {
    struct Read: Sendable {
        var round: UInt64
        var index: LogIndex
        var reader: NodeNumber
        var context: UInt64
    }

    var members: [NodeNumber] = []
    var progress: [NodeNumber: Progress] = [:]
    var transferTarget: NodeNumber?
    /// Ticks since it was asked to hand over.
    var transferTicks = 0
    var round: UInt64 = 0
    var reads: [Read] = []
    /// Readers that wait for the first commit of the term.
    var earlyReads: [(reader: NodeNumber, context: UInt64)] = []
    var uncommittedBytes = 0
}

/// What a follower owes its leader.
struct FollowerState: Sendable {
    /// The log agrees with the leader's up to here.
    var agreed: LogIndex = 0
    /// The leader was told that it may count this much.
    var acknowledged: LogIndex = 0
}
