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

/// Changes of the voter configuration (thesis 4): by way of learners and joint configurations.
extension Raft {
    mutating func propose(_ change: ConfigurationChange) {
        if let refusal = proposalRefusal() { return refuseProposal(refusal) }
        // An entry of this term must be committed first. Otherwise two leaders that do not know
        // each other's change could each have a majority.
        guard log.configurationIndex <= log.commit, log.term(at: log.commit) == term else {
            return refuseProposal(.changeInProgress)
        }
        let next: VoterConfiguration
        do {
            next = try configuration.applying(change)
        } catch {
            return refuseProposal(.configuration(error))
        }
        let first = LogPosition(term: term, index: log.lastIndex + 1)
        append([.configuration(next)])
        outbox.ready.proposal = .accepted(first: first, count: 1)
        advanceCommit()
        broadcastAppend()
    }

    /// Updates the members that the leader replicates to; `next` and `isActive` are for new ones.
    ///
    /// A member that is being removed receives entries until its removal is committed, so that it
    /// learns of the removal and does not campaign.
    mutating func updateMembers(next: LogIndex, isActive: Bool) {
        leading.members = log.members
        var progress: [NodeNumber: Progress] = [:]
        for member in leading.members {
            if let known = leading.progress[member] {
                progress[member] = known
                continue
            }
            progress[member] = Progress(next: next, isActive: isActive)
        }
        leading.progress = progress
        updateOwnProgress()
        leading.progress[node]?.state = .replicate
        if let target = leading.transferTarget, !configuration.voters.contains(target) {
            leading.transferTarget = nil
        }
    }

    /// Once the newest configuration is committed: leaves a joint configuration, or steps down if
    /// this member is no voter in it.
    mutating func finishChange() {
        guard isLeader, log.configurationIndex <= log.commit else { return }
        if leading.members != configuration.members {
            updateMembers(next: log.lastIndex + 1, isActive: true)
        }
        if configuration.isJoint {
            guard configuration.leavesByItself else { return }
            append([.configuration(configuration.afterLeaving)])
            broadcastAppend()
        } else if !configuration.isVoter(node) {
            becomeFollower(term, leader: nil)
        }
    }

    // MARK: Leadership transfer (thesis 3.10)

    mutating func transfer(to target: NodeNumber) {
        guard isLeader else { return refuseProposal(.notLeader(leader)) }
        guard target != node, configuration.voters.contains(target) else {
            return refuseProposal(.noSuchVoter)
        }
        // A transfer times out after one election timeout, even if it is requested repeatedly; then
        // the leader accepts proposals again. It has a timer of its own: if a request restarted the
        // timer of the quorum check, a leader that has lost its quorum would never step down.
        if leading.transferTarget != target { leading.transferTicks = 0 }
        leading.transferTarget = target
        sendAppend(to: target, evenEmpty: false)
        completeTransferIfReady(to: target)
    }

    mutating func completeTransferIfReady(to peer: NodeNumber) {
        guard leading.transferTarget == peer,
            leading.progress[peer]?.received == log.lastIndex
        else { return }
        send(.timeoutNow, to: peer)
    }
}

/// Linearizable reads without a log entry (ReadIndex, thesis 6.4): the leader returns its commit
/// index once a round of heartbeats proves that it still led after the read was requested.
extension Raft {
    mutating func read(_ context: UInt64) {
        if isLeader { return beginRead(context, for: node) }
        guard let leader else {
            outbox.ready.reads.append(ReadAnswer(context: context, result: .noLeader))
            return
        }
        send(.readRequest(context: context), to: leader)
    }

    mutating func beginRead(_ context: UInt64, for reader: NodeNumber) {
        // Until the leader commits an entry of its term, it does not know what earlier leaders
        // committed.
        guard log.term(at: log.commit) == term else {
            leading.earlyReads.append((reader, context))
            return
        }
        sendHeartbeats()
        leading.reads.append(
            .init(round: leading.round, index: log.commit, reader: reader, context: context)
        )
        answerReads()
    }

    mutating func beginEarlyReads() {
        let early = leading.earlyReads
        leading.earlyReads = []
        for read in early { beginRead(read.context, for: read.reader) }
    }

    /// Answers the reads whose heartbeat round a quorum has acknowledged: no later term had a
    /// leader when that round began.
    mutating func answerReads() {
        guard isLeader, !leading.reads.isEmpty else { return }
        let proved = configuration.committed { peer in
            peer == node ? leading.round : leading.progress[peer]?.round ?? 0
        }
        while let read = leading.reads.first, read.round <= proved {
            leading.reads.removeFirst()
            if read.reader == node {
                outbox.ready.reads.append(
                    ReadAnswer(context: read.context, result: .index(read.index))
                )
            } else {
                send(.readResponse(context: read.context, index: read.index), to: read.reader)
            }
        }
    }

    mutating func refuseReads(_ result: ReadAnswer.Result) {
        let contexts =
            leading.reads.filter { $0.reader == node }.map(\.context)
            + leading.earlyReads.filter { $0.reader == node }.map(\.context)
        for context in contexts {
            outbox.ready.reads.append(ReadAnswer(context: context, result: result))
        }
        leading.reads = []
        leading.earlyReads = []
    }
}

/// Snapshots for members that need entries the log no longer has (thesis 5).
extension Raft {
    mutating func sendSnapshot(to peer: NodeNumber) {
        guard var progress = leading.progress[peer], progress.isActive else { return }
        // The driver may send a newer snapshot; the acknowledgement carries the index it covers.
        send(.snapshot(log.snapshot), to: peer)
        progress.becomeSnapshot(log.snapshot.index)
        leading.progress[peer] = progress
    }

    mutating func snapshotSent(_ peer: NodeNumber, _ isDelivered: Bool) {
        guard isLeader, var progress = leading.progress[peer],
            case .snapshot = progress.state
        else { return }
        if !isDelivered { progress.state = .probe }
        progress.becomeProbe()
        // Send nothing until the member's next message, which may be the snapshot's
        // acknowledgement.
        progress.isProbing = true
        leading.progress[peer] = progress
    }
}
