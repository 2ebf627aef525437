import Scripting
import Testing

/// When a function is new, proven or suspected, and how large its pieces are.
@Suite struct ScriptReputationTests {
    private var reputation = ScriptReputation()
    private static let millisecond: UInt64 = 1_000_000

    private mutating func finish(_ count: Int, milliseconds: UInt64 = 1, timeouts: Int = 0) {
        for _ in 0..<count {
            reputation.finish(
                items: reputation.pieceItems,
                timeouts: timeouts,
                nanoseconds: milliseconds * ScriptReputationTests.millisecond
            )
        }
    }

    /// The good pieces until a suspected function is proven.
    private mutating func recover() -> Int {
        var pieces = 0
        while reputation.trust == .suspected, pieces < 1_000 {
            #expect(reputation.pieceItems <= ScriptReputation.suspectedItemsMax)
            finish(1)
            pieces += 1
        }
        return pieces
    }

    @Test mutating func fourGoodPiecesProveANewFunction() {
        #expect(reputation.pieceItems == 1)
        finish(3)
        #expect(reputation.trust == .new)
        finish(1)
        #expect(reputation.trust == .proven)
        #expect(reputation.pieceItems == 16)
    }

    @Test mutating func piecesGrowWhileTheyAreFastAndShrinkWhenTheyAreSlow() {
        finish(20)
        #expect(reputation.pieceItems == ScriptReputation.itemsMax)
        finish(3, milliseconds: 200)
        #expect(reputation.pieceItems == ScriptReputation.itemsMax / 8)
        // Between half of the target and twice the target they stay as they are.
        finish(5, milliseconds: 60)
        #expect(reputation.pieceItems == ScriptReputation.itemsMax / 8)
    }

    @Test mutating func pieceWithTooFewItemsDoesNotGrow() {
        finish(6)
        let items = reputation.pieceItems
        reputation.finish(items: 1, timeouts: 0, nanoseconds: 1)
        #expect(reputation.pieceItems == items)
    }

    @Test mutating func timeoutMakesAFunctionSuspected() {
        finish(10)
        finish(1, timeouts: 1)
        #expect(reputation.trust == .suspected)
        #expect(reputation.pieceItems == 1)
    }

    @Test mutating func twoSlowPiecesInSuccessionLowerReputation() {
        finish(10)
        for _ in 0..<3 {
            finish(1, milliseconds: 600)
            #expect(reputation.trust == .proven)
            finish(1)
        }
        finish(2, milliseconds: 600)
        #expect(reputation.trust == .suspected)
    }

    @Test mutating func suspicionEndsAfterGoodPiecesAndLongerWithEachRelapse() {
        var pieces: [Int] = []
        for _ in 0..<6 {
            reputation.suspect()
            pieces.append(recover())
        }
        #expect(pieces == [8, 16, 32, 64, 64, 64])
    }

    @Test mutating func successfulCallResetsFailuresInSuccession() {
        finish(16, timeouts: 1)
        #expect(reputation.failuresInSuccession == 16)
        reputation.fail()
        #expect(reputation.failuresInSuccession == 17)
        finish(1)
        #expect(reputation.failuresInSuccession == 0)
    }
}
