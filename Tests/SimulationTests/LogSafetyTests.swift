import Bytes
import Consensus
import Orchestration
import Simulation
import Testing
import Vocabulary

/// The checks of Raft's logs, with input that they must find.
@Suite struct LogSafetyTests {
    private func member(
        _ address: String,
        leads: Bool = false,
        term: Term,
        commit: LogIndex,
        _ entries: [LogEntry]
    ) -> LogSafety.Member {
        let configuration = VoterConfiguration(voters: [NodeNumber(1), NodeNumber(2)])
        let start = SnapshotDescription(
            position: LogPosition(term: 0, index: 0),
            configuration: configuration
        )
        return LogSafety.Member(
            address: address,
            process: 0,
            isLeader: leads,
            term: term,
            commit: commit,
            applied: 0,
            log: RaftLog(snapshot: start, entries: entries),
            state: ClusterState(memoryQuota: 1 << 30)
        )
    }

    private func command(_ number: UInt64, _ name: String) -> LogEntry.Payload {
        let envelope = ClusterEnvelope(
            proposer: NodeNumber(1),
            boot: 7,
            number: number,
            command: .setName(name)
        )
        return .command(envelope.encoded)
    }

    @Test func equalCommittedEntriesAreAccepted() {
        var safety = LogSafety()
        let entries = [
            LogEntry(term: 1, index: 1, payload: .empty),
            LogEntry(term: 1, index: 2, payload: command(1, "a")),
        ]
        #expect(safety.check(member("one", leads: true, term: 1, commit: 2, entries)).isEmpty)
        #expect(safety.check(member("two", term: 1, commit: 1, entries)).isEmpty)
        #expect(safety.compared == 3)
    }

    @Test func differentEntriesCommittedAtOneIndexAreFound() {
        var safety = LogSafety()
        let one = [LogEntry(term: 1, index: 1, payload: .empty)]
        let other = [LogEntry(term: 2, index: 1, payload: .empty)]
        #expect(safety.check(member("one", term: 1, commit: 1, one)).isEmpty)
        #expect(safety.check(member("two", term: 2, commit: 1, other)).count == 1)
    }

    @Test func leaderWithoutAnEarlierCommittedEntryIsFound() {
        var safety = LogSafety()
        let one = [LogEntry(term: 1, index: 1, payload: .empty)]
        let other = [LogEntry(term: 2, index: 1, payload: .empty)]
        #expect(safety.check(member("one", term: 1, commit: 1, one)).isEmpty)
        #expect(safety.check(member("two", leads: true, term: 2, commit: 0, other)).count == 1)
    }

    @Test func leaderMayLackEntriesCommittedInALaterTerm() {
        var safety = LogSafety()
        let one = [LogEntry(term: 1, index: 1, payload: .empty)]
        #expect(safety.check(member("one", term: 3, commit: 1, one)).isEmpty)
        let other = [LogEntry(term: 2, index: 1, payload: .empty)]
        #expect(safety.check(member("two", leads: true, term: 2, commit: 0, other)).isEmpty)
    }

    @Test func repeatedProposalIsCounted() {
        var safety = LogSafety()
        let entries = [
            LogEntry(term: 1, index: 1, payload: command(1, "a")),
            LogEntry(term: 1, index: 2, payload: command(2, "b")),
            LogEntry(term: 1, index: 3, payload: command(1, "a")),
        ]
        #expect(safety.check(member("one", term: 1, commit: 3, entries)).isEmpty)
        #expect(safety.repeated == 1)
    }

    @Test func differentUncommittedEntriesOfOnePositionAreFound() {
        var safety = LogSafety()
        let first = LogEntry(term: 1, index: 1, payload: .empty)
        let one = [first, LogEntry(term: 1, index: 2, payload: command(1, "a"))]
        let other = [first, LogEntry(term: 1, index: 2, payload: command(2, "b"))]
        #expect(safety.check(member("one", term: 1, commit: 0, one)).isEmpty)
        #expect(safety.check(member("two", term: 1, commit: 0, other)).count == 1)
    }

    @Test func entryWithDifferentPredecessorsIsFound() {
        var safety = LogSafety()
        let last = LogEntry(term: 3, index: 2, payload: .empty)
        let one = [LogEntry(term: 1, index: 1, payload: .empty), last]
        let other = [LogEntry(term: 2, index: 1, payload: .empty), last]
        #expect(safety.check(member("one", term: 3, commit: 0, one)).isEmpty)
        #expect(safety.check(member("two", term: 3, commit: 0, other)).count == 1)
    }

    @Test func leaderThatTruncatesItsLogIsFound() {
        let entries = [
            LogEntry(term: 2, index: 1, payload: .empty),
            LogEntry(term: 2, index: 2, payload: command(1, "a")),
        ]
        for leads in [true, false] {
            var safety = LogSafety()
            #expect(safety.check(member("one", leads: leads, term: 2, commit: 0, entries)).isEmpty)
            let shorter = member("one", leads: leads, term: 2, commit: 0, [entries[0]])
            #expect(safety.check(shorter).count == (leads ? 1 : 0))
        }
        // In a later term it may, since another node led between.
        var safety = LogSafety()
        #expect(safety.check(member("one", leads: true, term: 2, commit: 0, entries)).isEmpty)
        let later = member("one", leads: true, term: 4, commit: 0, [entries[0]])
        #expect(safety.check(later).isEmpty)
    }
}
