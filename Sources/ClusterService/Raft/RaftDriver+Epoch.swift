internal import Bytes
package import Consensus
internal import Vocabulary

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
        let since = now - min(now, 15 * settings.tickNanoseconds)
        let answering = voters.count { $0 == settings.node || (heard[$0] ?? 0) > since }
        return (voters.count, answering, voters.count / 2 + 1)
    }
}
