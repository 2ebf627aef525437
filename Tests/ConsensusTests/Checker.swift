import Consensus
import Vocabulary

/// The safety properties of the Raft paper (figure 3), checked after every step.
struct Checker {
    enum Violation: Equatable {
        case twoLeaders(term: Term)
        case leaderTruncated
        case leaderIncomplete(LogIndex)
        case committedDiffers(LogIndex)
        case logsDiffer(LogIndex)
        case staleRead
        case termFell
    }

    private(set) var violation: Violation?
    private(set) var committed: [LogEntry] = []
    private(set) var elections = 0
    private(set) var readsAnswered = 0
    private var leaders: [Term: NodeNumber] = [:]
    private var lastIndex: [NodeNumber: (term: Term, index: LogIndex)] = [:]
    private var terms: [NodeNumber: Term] = [:]
    /// The highest committed index when each read was requested, by the read's context.
    private var reads: [UInt64: LogIndex] = [:]

    var commit: LogIndex { LogIndex(committed.count) }

    mutating func recordRead(_ context: UInt64) { reads[context] = commit }

    /// A recordRestart member has lost a term that was not on disk.
    mutating func recordRestart(_ number: NodeNumber) { terms[number] = nil }

    mutating func check(_ member: Member, _ ready: Ready, among group: Group) {
        let raft = member.raft
        if let before = terms[raft.node], before > raft.term { fail(.termFell) }
        terms[raft.node] = raft.term
        if raft.isLeader { checkLeader(raft) }
        for entry in ready.toApply where entry.index <= commit {
            if committed[Int(entry.index) - 1] != entry { fail(.committedDiffers(entry.index)) }
        }
        for entry in ready.toApply where entry.index == commit + 1 { committed.append(entry) }
        for answer in ready.reads {
            guard case .index(let index) = answer.result, let least = reads[answer.context] else {
                continue
            }
            readsAnswered += 1
            if index < least { fail(.staleRead) }
        }
    }

    private mutating func checkLeader(_ raft: Raft) {
        if let other = leaders[raft.term] {
            if other != raft.node { fail(.twoLeaders(term: raft.term)) }
        } else {
            leaders[raft.term] = raft.node
            elections += 1
            checkCompleteness(raft)
        }
        if let before = lastIndex[raft.node], before.term == raft.term,
            before.index > raft.log.lastIndex
        {
            fail(.leaderTruncated)
        }
        lastIndex[raft.node] = (raft.term, raft.log.lastIndex)
        // What the leader counts as committed is committed: members that apply it later must agree.
        while commit < raft.commit, violation == nil {
            guard let entry = raft.log.entries(from: commit + 1, bytesMax: 1).first else { break }
            committed.append(entry)
        }
    }

    private mutating func checkCompleteness(_ raft: Raft) {
        guard raft.log.lastIndex >= commit else { return fail(.leaderIncomplete(commit)) }
        var index = raft.log.firstIndex
        while index <= commit {
            if raft.log.term(at: index) != committed[Int(index) - 1].term {
                return fail(.leaderIncomplete(index))
            }
            index += 1
        }
    }

    /// If two logs have an entry of the same term at the same index, they agree up to that index.
    mutating func checkMatching(_ group: Group) {
        for (place, one) in group.numbers.enumerated() {
            for other in group.numbers.dropFirst(place + 1) {
                let (first, second) = (group.member(one).raft.log, group.member(other).raft.log)
                let start = max(first.firstIndex, second.firstIndex)
                var agree = false
                var index = min(first.lastIndex, second.lastIndex)
                while index >= start {
                    let isSame = first.term(at: index) == second.term(at: index)
                    if agree, !isSame { fail(.logsDiffer(index)) }
                    if isSame { agree = true }
                    index -= 1
                }
            }
        }
    }

    mutating func fail(_ violation: Violation) {
        if self.violation == nil { self.violation = violation }
    }
}
