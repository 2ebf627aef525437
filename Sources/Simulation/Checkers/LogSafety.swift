internal import Bytes
package import Consensus
package import Orchestration
internal import Vocabulary

/// Raft's safety properties, checked on the logs of all members: an entry that any member knows to
/// be committed is the same everywhere, forever.
///
/// - State machine safety: an index that two members committed has the same entry.
/// - Log matching: an index and a term identify one entry and its predecessor's term; so by
///   induction all entries before it are the same.
/// - Leader append-only: a leader removes and changes no entry of its log.
/// - Leader completeness: a leader has every entry that was known to be committed in an earlier
///   term.
/// - Proposals: a proposal that was committed twice, since its reply was lost, changes nothing the
///   second time.
///
/// It applies committed entries one by one and so passes every committed state to `QuotaBound` and
/// `DesignBound`.
package struct LogSafety {
    /// A member's current Raft state.
    package struct Member {
        package let address: String
        /// The number of the member's process.
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
        /// The entry was committed in this term or an earlier one.
        let term: Term
    }

    /// An entry of any member's log, committed or not, and the term of its predecessor.
    private struct Written {
        let entry: LogEntry
        let before: Term?
    }

    /// A member's state at the previous check.
    private struct Checked {
        var last: LogPosition
        /// The term that the member led; nil if it was not the leader.
        var leads: Term?
    }

    private struct Proposal: Hashable {
        let node: NodeNumber
        let boot: UInt64
        let number: UInt64
    }

    /// The observations of one Raft group.
    private struct Group {
        var committed: [LogIndex: Committed] = [:]
        var written: [LogPosition: Written] = [:]
        var newest: LogIndex = 0
        /// The state after all entries up to `applied`.
        var model: ClusterState?
        var applied: LogIndex = 0
        var quotas = QuotaBound()
        var designs = DesignBound()
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

    /// The number of a new leader's newest entries that are checked for completeness.
    private static let depth: UInt64 = 64

    private var groups: [UInt64: Group] = [:]
    private var seen: [Place: LogIndex] = [:]
    private var checked: [Place: Checked] = [:]
    /// The number of compared committed entries.
    package private(set) var compared = 0
    /// The number of proposals that were committed twice.
    package private(set) var repeated = 0
    /// The flaws that `QuotaBound` and `DesignBound` found in committed states, in their order.
    package private(set) var quotaFlaws: [String] = []

    package init() {}

    /// Checks one member's log against all observations.
    ///
    /// - Returns: A sentence for each violated property.
    package mutating func check(_ member: Member) -> [String] {
        let group = member.state.groupID
        var known = groups.removeValue(forKey: group) ?? Group()
        defer { groups[group] = known }
        var flaws = checkWritten(member, &known) + checkCommitted(member, &known)
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

    private mutating func checkWritten(_ member: Member, _ known: inout Group) -> [String] {
        let (place, log) = (Place(member), member.log)
        let before = checked[place]
        let isKept = before.map { log.contains($0.last) } ?? false
        checked[place] = Checked(last: log.last, leads: member.isLeader ? member.term : nil)
        if let before, before.leads == member.term, member.isLeader, !isKept,
            before.last.index > log.base.index
        {
            return [
                "\(member.address) leads in term \(member.term), but removed entry "
                    + "\(before.last.index) from its log"
            ]
        }
        // After a truncation all entries are compared again from the log's first.
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
                "entry \(entry.index) of term \(entry.term) at \(member.address) differs from that "
                    + "of another member, or has another predecessor"
            ]
        }
        return []
    }

    private mutating func checkCommitted(_ member: Member, _ known: inout Group) -> [String] {
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
                "entry \(entry.index) is committed at \(member.address) with term \(entry.term), "
                    + "but at another member with term \(other.entry.term)"
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
                let envelope = try? ClusterEnvelope(decoding: bytes)
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
                if let flaw = known.designs.check(model) { quotaFlaws.append(flaw) }
                continue
            }
            repeated += 1
            // The expected effect is that of a command without effect: only the index advances.
            var expected = model
            _ = expected.apply(.dropRetry(id: ""), at: known.applied)
            _ = model.apply(envelope, at: known.applied)
            if model != expected {
                flaws.append(
                    "entry \(known.applied) repeats proposal \(envelope.number) of node "
                        + "\(envelope.proposer), but changed the state again"
                )
            }
        }
        known.model = model
        return flaws
    }
}
