import Orchestration
import Testing
import Vocabulary

/// One node's failure detector; times in milliseconds.
@Suite struct FailureTableTests {
    private let two = NodeNumber(2)
    private let three = NodeNumber(3)

    private func ms(_ milliseconds: UInt64) -> UInt64 { milliseconds * 1_000_000 }

    private func table() -> FailureTable { FailureTable(of: NodeNumber(1), now: 0) }

    private func beat(_ table: inout FailureTable, _ times: some Sequence<UInt64>) {
        for time in times { table.heard(two, now: ms(time)) }
    }

    @Test func nodeIsSuspectAfterThreeMissedBeats() {
        var table = table()
        beat(&table, [100, 200])
        #expect(!table.isSuspect(two, now: ms(499)))
        #expect(table.isSuspect(two, now: ms(500)))
        #expect(table.silence(of: two, now: ms(700)) == ms(500))
    }

    @Test func nodeWithoutBeatsIsSilentSinceTheStart() {
        let table = table()
        #expect(table.silence(of: two, now: ms(900)) == ms(900))
        #expect(!table.hasHeard(of: two))
        #expect(!table.isUp(two, now: ms(10)))
    }

    /// Otherwise a node could be failed over for silence before it joined the cluster.
    @Test func newMemberIsSilentSinceItIsExpected() {
        var table = table()
        table.expect([two], now: ms(60_000))
        #expect(!table.isSuspect(two, now: ms(60_299)))
        #expect(!table.hasHeard(of: two))
        #expect(!table.isUp(two, now: ms(60_010)))
        table.expect([two, three], now: ms(61_000))
        #expect(table.silence(of: two, now: ms(61_000)) == ms(1_000))
        #expect(table.silence(of: three, now: ms(61_000)) == 0)
        table.heard(two, now: ms(61_000))
        #expect(table.isUp(two, now: ms(61_000)))
        // A node that was failed over and forgotten starts with a new record.
        table.forget(two)
        table.expect([two], now: ms(90_000))
        #expect(table.silence(of: two, now: ms(90_500)) == ms(500))
    }

    @Test func silentNodeIsUpAfterThreeBeatsInARow() {
        var table = table()
        beat(&table, [100, 200])
        #expect(table.isUp(two, now: ms(200)))
        #expect(!table.isUp(two, now: ms(900)))
        beat(&table, [1_000, 1_100])
        #expect(!table.isUp(two, now: ms(1_100)))
        beat(&table, [1_200])
        #expect(table.isUp(two, now: ms(1_200)))
    }

    @Test func nodeIsUpOnlyIfAllItsBucketsAreReady() {
        var table = table()
        table.heard(two, isReady: false, now: ms(100))
        #expect(!table.isUp(two, now: ms(100)))
        table.heard(two, isReady: true, now: ms(200))
        #expect(table.isUp(two, now: ms(200)))
    }

    @Test func oneBeatEndsTheSilenceOfAStableNode() {
        var table = table()
        beat(&table, [100, 2_000])
        #expect(table.silence(of: two, now: ms(2_100)) == ms(100))
    }

    @Test func oneBeatDoesNotEndTheSilenceOfAnUnstableNode() {
        var table = table()
        beat(&table, [100])
        for start in [UInt64(1_000), 3_000, 5_000] {
            beat(&table, [start, start + 100, start + 200])
        }
        #expect(table.isUnstable(two, now: ms(5_200)))
        // One beat in the middle of a long silence.
        beat(&table, [7_000])
        #expect(table.silence(of: two, now: ms(7_100)) == ms(1_900))
        // Three beats end the silence, and a minute without silence ends the instability.
        beat(&table, [7_100, 7_200])
        #expect(table.silence(of: two, now: ms(7_300)) == ms(100))
        #expect(!table.isUnstable(two, now: ms(70_000)))
    }

    @Test func refusalsCountFromTheLastBeatToTheLastAttempt() {
        var table = table()
        // The process of a node without a beat may not have been started yet.
        table.refused(two, now: ms(500))
        #expect(table.refusedSilence(of: two) == 0)
        beat(&table, [1_000])
        #expect(table.refusedSilence(of: two) == 0)
        table.refused(two, now: ms(1_100))
        table.refused(two, now: ms(1_900))
        #expect(table.refusedSilence(of: two) == ms(900))
        #expect(
            table.suspicions(among: [two], now: ms(2_000)) == [
                .init(node: two, silentNanoseconds: ms(1_000), refusedNanoseconds: ms(900))
            ]
        )
        // A process listens again, or the machine is silent now.
        table.attempted(two)
        #expect(table.refusedSilence(of: two) == 0)
        table.refused(two, now: ms(2_100))
        beat(&table, [2_200])
        #expect(table.refusedSilence(of: two) == 0)
    }

    @Test func suspicionsOfOtherNodesExpire() {
        var table = table()
        let nodes = [1, 2, 3, 4].map { NodeNumber($0) }
        beat(&table, [100])
        table.heard(
            three,
            suspicions: [FailureTable.Suspicion(node: two, silentNanoseconds: ms(1_000))],
            now: ms(1_100)
        )
        table.heard(NodeNumber(4), suspicions: [], now: ms(1_100))
        let seers = { (time: UInt64) in
            table.seers(
                of: two,
                silentFor: .init(silentNanoseconds: ms(1_000)),
                among: nodes,
                now: ms(time)
            )
        }
        #expect(seers(1_050) == [three])
        #expect(seers(1_100) == [NodeNumber(1), three])
        #expect(seers(1_400) == [NodeNumber(1)])
    }
}
