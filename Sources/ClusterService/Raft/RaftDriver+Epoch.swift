package import Consensus
package import Vocabulary

/// The basis of a new epoch: this node's log, committed or not.
extension RaftDriver {
    /// This node's term, and the position of its last log entry.
    package var logEnd: (term: Term, last: LogPosition) { (raft.term, raft.log.last) }

    /// Commands in the log that are not applied: not known to be committed, or not on disk.
    package var unapplied: [(index: LogIndex, bytes: [UInt8])] {
        raft.log.entries(from: max(applied + 1, raft.log.firstIndex)).compactMap { entry in
            guard case .command(let bytes) = entry.payload else { return nil }
            return (entry.index, bytes)
        }
    }

    /// The applied position and the voters at it; nil during a change of voters.
    package var standing: (position: LogPosition, configuration: VoterConfiguration)? {
        guard !raft.configuration.isJoint, raft.log.configurationIndex <= applied,
            let term = raft.log.term(at: applied)
        else { return nil }
        return (LogPosition(term: term, index: applied), raft.configuration)
    }

    /// The number of voters, of voters that answer this node, and of voters that form a majority.
    package var quorum: (voters: Int, answering: Int, needed: Int) {
        let voters = raft.configuration.voters
        return (voters.count, voters.count { hasHeard($0) }, voters.count / 2 + 1)
    }

    /// Whether a frame of a node's driver arrived lately: a node whose disk fails sends none,
    /// though it may send beats.
    ///
    /// - Parameters:
    ///   - node: The node.
    ///   - ticks: The longest time since, in ticks; a healthy node answers the leader at every
    ///     tick.
    /// - Returns: True if it arrived; always true for this node.
    package func hasHeard(_ node: NodeNumber, ticks: UInt64 = 15) -> Bool {
        let since = now - min(now, ticks * settings.tickNanoseconds)
        return node == settings.node || (heard[node] ?? 0) > since
    }

    /// The last log index that a member is known to have on disk; 0 unless this node leads.
    package func matched(_ node: NodeNumber) -> LogIndex {
        status.progress.first { $0.node == node }?.progress.matched ?? 0
    }
}
