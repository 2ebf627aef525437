internal import Bytes
package import Consensus
package import Vocabulary

/// What a new epoch is made of: the log of this node as it is, committed or not.
extension RaftDriver {
    /// The term this node is in, and where its log ends.
    package var logEnd: (term: Term, last: LogPosition) { (raft.term, raft.log.last) }

    /// Commands that nobody knows to be committed, or that wait for the disk.
    package var unapplied: [(index: LogIndex, bytes: [UInt8])] {
        raft.log.entries(from: max(applied + 1, raft.log.firstIndex)).compactMap { entry in
            guard case .command(let bytes) = entry.payload else { return nil }
            return (entry.index, bytes)
        }
    }

    /// Where the state here stands and who decides there; nil while who decides is changing.
    package var standing: (position: LogPosition, configuration: VoterConfiguration)? {
        guard !raft.configuration.isJoint, raft.log.configurationIndex <= applied,
            let term = raft.log.term(at: applied)
        else { return nil }
        return (LogPosition(term: term, index: applied), raft.configuration)
    }

    /// How many voters there are, how many of them answer this node, how many it takes.
    package var quorum: (voters: Int, answering: Int, needed: Int) {
        let voters = raft.configuration.voters
        return (voters.count, voters.count { hears($0) }, voters.count / 2 + 1)
    }

    /// Whether a node has lately taken part in what is decided: one whose disk fails does not, though
    /// it may say much else.
    ///
    /// - Parameters:
    ///   - node: Who.
    ///   - ticks: How long ago that may be; whoever is well answers the leader at every one.
    /// - Returns: Whether it has; this node always.
    package func hears(_ node: NodeNumber, ticks: UInt64 = 15) -> Bool {
        let since = now - min(now, ticks * settings.tickNanoseconds)
        return node == settings.node || (heard[node] ?? 0) > since
    }

    /// How much of the log a member has on its disk, as far as the leader knows.
    package func matched(_ node: NodeNumber) -> LogIndex {
        status.progress.first { $0.node == node }?.progress.matched ?? 0
    }
}
