/// The trust and speed of one function: which workers may run it, and how many items at once.
///
/// A function without a past runs apart from those that are known to be fast, one call at a time. It
/// is *proven* by some good pieces, and *suspected* by a bad one: a call that timed out or ended its
/// process, or slow pieces in succession. Suspected functions share one worker, in which any call may
/// use up its whole time.
///
/// - A suspected function becomes proven again: after `recoveryMin` good pieces, twice as many with
///   each relapse, `recoveryMax` at most.
/// - A piece is so large that it takes about `targetNanoseconds`. It begins with one item.
package struct ScriptReputation: Hashable, Sendable {
    package enum Trust: Hashable, Sendable, CaseIterable {
        /// Can become: proven, suspected.
        case new
        /// Can become: suspected.
        case proven
        /// Can become: proven.
        case suspected
    }

    /// Good pieces that prove a new function.
    package static let proofPieces = 4
    package static let recoveryMin = 8
    package static let recoveryMax = 64
    /// Slow pieces in succession that make a function suspected: one may be slow by chance, on a
    /// machine that is busy.
    package static let slowMax = 2
    package static let slowNanoseconds: UInt64 = 500_000_000
    /// A worker is free for another function after about this time.
    package static let targetNanoseconds: UInt64 = 50_000_000
    /// Items of a piece: those of the largest frame.
    package static let itemsMax = 4_096
    /// Items of a piece of a suspected function: each may time out.
    package static let suspectedItemsMax = 8

    package private(set) var trust = Trust.new
    /// The items that the next piece may have.
    package private(set) var pieceItems = 1
    /// The time of one call, smoothed; 0 until a piece has ended.
    package private(set) var itemNanoseconds: UInt64 = 0
    /// Calls that timed out or ended their process, since the last one that ended well.
    package private(set) var failuresInSuccession = 0
    private var goodPieces = 0
    private var slowPieces = 0
    private var relapses = 0

    package init() {}

    /// Counts a piece that was executed to its end.
    ///
    /// - Parameters:
    ///   - items: The number of its calls.
    ///   - timeouts: How many of them timed out.
    ///   - nanoseconds: The time that the piece took.
    package mutating func finish(items: Int, timeouts: Int, nanoseconds: UInt64) {
        let perItem = nanoseconds / UInt64(max(1, items))
        itemNanoseconds = itemNanoseconds == 0 ? perItem : (3 * itemNanoseconds + perItem) / 4
        guard timeouts == 0 else {
            failuresInSuccession = timeouts == items ? failuresInSuccession + items : 0
            return suspect()
        }
        failuresInSuccession = 0
        guard nanoseconds < ScriptReputation.slowNanoseconds else {
            slowPieces += 1
            goodPieces = 0
            pieceItems = max(1, pieceItems / 2)
            if slowPieces >= ScriptReputation.slowMax { suspect() }
            return
        }
        slowPieces = 0
        goodPieces += 1
        if goodPieces >= goodPiecesNeeded { trust = .proven }
        resize(items, nanoseconds)
    }

    /// Counts a call that is skipped because it ends processes.
    package mutating func fail() {
        failuresInSuccession += 1
        suspect()
    }

    /// The function occupied or ended its process; it is not known by which call.
    package mutating func suspect() {
        if trust != .suspected { relapses += 1 }
        trust = .suspected
        goodPieces = 0
        slowPieces = 0
        pieceItems = 1
    }

    private var goodPiecesNeeded: Int {
        switch trust {
        case .new: return ScriptReputation.proofPieces
        case .proven: return 0
        case .suspected:
            let doublings = min(max(0, relapses - 1), 8)
            return min(ScriptReputation.recoveryMax, ScriptReputation.recoveryMin << doublings)
        }
    }

    private mutating func resize(_ items: Int, _ nanoseconds: UInt64) {
        let target = ScriptReputation.targetNanoseconds
        if nanoseconds > 2 * target {
            pieceItems = max(1, min(items, pieceItems) / 2)
        } else if items >= pieceItems, nanoseconds <= target / 2 {
            let most =
                trust == .suspected
                ? ScriptReputation.suspectedItemsMax : ScriptReputation.itemsMax
            pieceItems = min(most, 2 * pieceItems)
        }
    }
}
