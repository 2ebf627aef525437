package import Vocabulary

/// Settings of a member; all but `node` are the same for all members of a group.
package struct RaftSettings: Hashable, Sendable {
    package var node: NodeNumber
    /// Ticks without a message of a leader before a member campaigns: at least this many, at random
    /// fewer than twice as many.
    package var electionTicks = 4
    package var heartbeatTicks = 1
    /// Bytes of entries in one append: few enough to arrive well within an election timeout.
    package var appendBytesMax = 256 << 10
    /// Unacknowledged appends to one member.
    ///
    /// With `appendBytesMax` this bounds the memory that a slow member costs.
    package var appendsInFlightMax = 64
    /// Bytes proposed and not yet committed; at this many, further proposals are refused.
    package var uncommittedBytesMax = 16 << 20
    /// Entries kept behind a snapshot when the log is compacted, so that a follower which lags a
    /// little needs no snapshot.
    package var entriesKept: UInt64 = 1_000

    package init(node: NodeNumber) {
        self.node = node
    }
}

/// The state that a member reads from its disk at start.
package struct RestoredState: Sendable {
    package var hardState = HardState()
    package var snapshot: SnapshotDescription
    /// The position before the first stored entry; nil if that is the snapshot's position.
    package var base: LogPosition?
    package var entries: [LogEntry] = []

    package init(snapshot: SnapshotDescription) { self.snapshot = snapshot }
}

package enum RaftRole: Hashable, Sendable {
    /// Can become: pre-candidate, or candidate on the leader's `timeoutNow`.
    case follower
    /// Asks whether it would win an election. Can become: candidate, follower.
    case preCandidate
    /// Can become: leader, follower.
    case candidate
    /// Can become: follower.
    case leader
}

/// One member of a Raft group (Ongaro's thesis), as a state machine without I/O: `step` handles an
/// event and returns what to store, send and apply.
///
/// Storage is asynchronous: a write is on disk only when the driver reports it with `stored`. A
/// message that depends on a write (a vote, an acknowledgement, the leader's own share of a
/// majority) is held back until then. Heartbeats never wait, so a slow disk deposes no leader.
///
/// - Term and vote are on disk before any message that depends on them leaves.
/// - The term and the commit index never decrease.
/// - The configuration in force is the newest in the log, committed or not.
package struct Raft: Sendable {
    package let settings: RaftSettings
    package internal(set) var term: Term
    package internal(set) var vote: NodeNumber?
    package internal(set) var role = RaftRole.follower
    package internal(set) var leader: NodeNumber?
    package internal(set) var log: RaftLog
    var timers = Timers()
    /// The votes received in the current campaign: true if granted.
    var votes: [NodeNumber: Bool] = [:]
    var leading = LeadershipState()
    var following = FollowerState()
    var outbox: Outbox
    /// The first index that this member does not acknowledge, nor count for itself as leader; nil
    /// for no limit.
    var withheldFrom: LogIndex?

    package init(_ settings: RaftSettings, restoring state: RestoredState) {
        precondition(
            settings.electionTicks > settings.heartbeatTicks,
            "the election timeout exceeds the heartbeat interval"
        )
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

    /// The last index up to which this member counts in a majority.
    var acknowledgeable: LogIndex {
        guard let withheldFrom else { return log.durable }
        return min(log.durable, max(withheldFrom, 1) - 1)
    }

    /// The leader's view of each member, in order of node number; empty on any other member.
    package var progress: [(node: NodeNumber, progress: Progress)] {
        leading.members.compactMap { node in leading.progress[node].map { (node, $0) } }
    }
}

/// Timers, in ticks.
struct Timers: Sendable {
    /// Since the last message of the leader or granted vote; on the leader, since its last quorum
    /// check.
    var election = 0
    /// On the leader: since the last heartbeats.
    var heartbeat = 0
    /// The current election timeout, drawn with the dice of a tick; nil until the next tick.
    var timeout: Int?

    mutating func reset() {
        election = 0
        heartbeat = 0
        timeout = nil
    }
}

/// State that only a leader has.
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
    /// Ticks since the transfer to the current target was first requested.
    var transferTicks = 0
    var round: UInt64 = 0
    var reads: [Read] = []
    /// Reads that wait for the first commit of the term.
    var earlyReads: [(reader: NodeNumber, context: UInt64)] = []
    var uncommittedBytes = 0
}

/// The progress of a follower's agreement with the leader.
struct FollowerState: Sendable {
    /// The log agrees with the leader's up to here.
    var agreed: LogIndex = 0
    /// The highest index acknowledged to the leader.
    var acknowledged: LogIndex = 0
}
