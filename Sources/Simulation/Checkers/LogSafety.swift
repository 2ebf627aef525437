package import Consensus
package import Orchestration
internal import Vocabulary

/// The entries of Raft's logs, as the members of a cluster have them: what anybody knows to be
/// committed is the same everywhere, for ever.
///
/// - State machine safety: an index that is committed at two members is one entry.
/// - Log matching: an index and a term name one entry, with one before it; so by induction all
///   before it are the same.
/// - Leader append-only: whoever leads takes nothing of its log back, and changes none.
/// - Leader completeness: who leads has whatever was known to be committed in an earlier term.
/// - Proposals: one that was agreed on twice, for want of an answer, changes nothing the second time.
///
/// Applies what is committed, one entry after the other, and so sees every agreed state: `QuotaBound`
/// looks at each.
package struct LogSafety {
    /// What a member is as of now.
    package struct Member {
        package let address: String
        /// Counts its starts.
        package let process: Int
        package let isLeader: Bool
        package let term: Term
        package let commit: LogIndex
        package let applied: LogIndex
        package let log: RaftLog
        package let state: ClusterState

        package init(
            address: String,
            process: Int,
            isLeader: Bool,
            term: Term,
            commit: LogIndex,
            applied: LogIndex,
            log: RaftLog,
            state: ClusterState
        ) {
            self.address = address
            self.process = process
            self.isLeader = isLeader
            self.term = term
            self.commit = commit
            self.applied = applied
            self.log = log
            self.state = state
        }
    }

    private struct Committed {
        let entry: LogEntry
        /// It was committed in this term, or an earlier one.
        let term: Term
    }

    /// An entry that anybody has, committed or not, and the term of the one before it.
    private struct Written {
        let entry: LogEntry
        let before: Term?
    }

    /// How far a member's log has been looked at.
    private struct Look {
        var last: LogPosition
        /// The term in which it led then.
        var leads: Term?
    }

    private struct Proposal: Hashable {
        let node: NodeNumber
        let boot: UInt64
        let number: UInt64
    }

    /// What is known of one group.
    private struct Group {
        var committed: [LogIndex: Committed] = [:]
        var written: [LogPosition: Written] = [:]
        var newest: LogIndex = 0
        /// Everything through `applied`, applied here.
        var model: ClusterState?
        var applied: LogIndex = 0
        var quotas = QuotaBound()
        var proposals: Set<Proposal> = []
        var leaders: Set<Term> = []
    }

    private struct Place: Hashable {
        let address: String
        let process: Int
        let group: UInt64

        init(_ member: Member) {
            address = member.address
            process = member.process
            group = member.state.groupID
        }
    }

    /// So many entries of a new leader's are looked at.
    private static let depth: UInt64 = 64

    private var groups: [UInt64: Group] = [:]
    private var seen: [Place: LogIndex] = [:]
    private var looked: [Place: Look] = [:]
    /// Entries that were compared, and proposals that came twice.
    package private(set) var compared = 0
    package private(set) var repeated = 0
    /// What `QuotaBound` says of the agreed states, in their order.
    package private(set) var quotaFlaws: [String] = []

    package init() {}

    /// Looks at one member.
    ///
    /// - Returns: What cannot be.
    package mutating func look(_ member: Member) -> [String] {
        let group = member.state.groupID
        var known = groups.removeValue(forKey: group) ?? Group()
        defer { groups[group] = known }
        var flaws = takeWritten(member, &known) + takeCommitted(member, &known)
        if member.isLeader, known.leaders.insert(member.term).inserted {
            flaws += incompleteness(member, known)
        }
        if known.model == nil {
            known.model = member.state
            known.applied = member.applied
        }
        flaws += applyCommitted(&known)
        return flaws
    }

    private mutating func takeWritten(_ member: Member, _ known: inout Group) -> [String] {
        let (place, log) = (Place(member), member.log)
        let before = looked[place]
        let isKept = before.map { log.contains($0.last) } ?? false
        looked[place] = Look(last: log.last, leads: member.isLeader ? member.term : nil)
        if let before, before.leads == member.term, member.isLeader, !isKept,
            before.last.index > log.base.index
        {
            return [
                "\(member.address) leads in term \(member.term), and took entry "
                    + "\(before.last.index) of its log back"
            ]
        }
        // What was cut off below is written anew from some place behind what is committed.
        let from = isKept ? (before?.last.index ?? 0) + 1 : log.firstIndex
        guard from <= log.lastIndex else { return [] }
        for entry in log.entries(from: max(from, log.firstIndex)) {
            let written = Written(entry: entry, before: log.term(at: entry.index - 1))
            guard let other = known.written.updateValue(written, forKey: entry.position)
            else { continue }
            let isSame =
                other.before == nil || written.before == nil
                || other.before == written.before
            guard other.entry != entry || !isSame else { continue }
            return [
                "entry \(entry.index) of term \(entry.term) is one at \(member.address) and "
                    + "another elsewhere, or follows on another"
            ]
        }
        return []
    }

    private mutating func takeCommitted(_ member: Member, _ known: inout Group) -> [String] {
        let place = Place(member)
        let log = member.log
        let first = max(log.firstIndex, (seen[place] ?? 0) + 1)
        guard first <= member.commit else { return [] }
        seen[place] = member.commit
        for entry in log.entries(from: first) where entry.index <= member.commit {
            compared += 1
            guard let other = known.committed[entry.index] else {
                known.committed[entry.index] = Committed(entry: entry, term: member.term)
                known.newest = max(known.newest, entry.index)
                continue
            }
            guard other.entry != entry else { continue }
            return [
                "entry \(entry.index) is committed at \(member.address) as of term \(entry.term), "
                    + "and elsewhere as of term \(other.entry.term)"
            ]
        }
        return []
    }

    private func incompleteness(_ member: Member, _ known: Group) -> [String] {
        let log = member.log
        let lowest = known.newest > Self.depth ? known.newest - Self.depth : 1
        for index in stride(from: known.newest, through: lowest, by: -1) {
            guard let committed = known.committed[index], committed.term < member.term,
                index > log.base.index
            else { continue }
            if log.term(at: index) == committed.entry.term { return [] }
            return [
                "\(member.address) leads in term \(member.term) without entry \(index), "
                    + "which was committed in term \(committed.term)"
            ]
        }
        return []
    }

    private mutating func applyCommitted(_ known: inout Group) -> [String] {
        guard var model = known.model else { return [] }
        var flaws: [String] = []
        while let next = known.committed[known.applied + 1] {
            known.applied += 1
            guard case .command(let bytes) = next.entry.payload,
                let envelope = ClusterEnvelope.decode(bytes)
            else { continue }
            let proposal = Proposal(
                node: envelope.proposer,
                boot: envelope.boot,
                number: envelope.number
            )
            let isNew = envelope.number == 0 || known.proposals.insert(proposal).inserted
            if isNew {
                _ = model.apply(envelope, at: known.applied)
                if let flaw = known.quotas.check(model) { quotaFlaws.append(flaw) }
                continue
            }
            repeated += 1
            // Asked for nothing, under a number that nobody counts: it only takes its index.
            var expected = model
            _ = expected.apply(.dropRetry(id: ""), at: known.applied)
            _ = model.apply(envelope, at: known.applied)
            if model != expected {
                flaws.append(
                    "entry \(known.applied) repeats proposal \(envelope.number) of node "
                        + "\(envelope.proposer), and changed the state once more"
                )
            }
        }
        known.model = model
        return flaws
    }
}
