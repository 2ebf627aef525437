internal import Vocabulary

/// Which proposals were applied: what a proposer sends twice, for want of an answer, happens once.
///
/// - Proposals of one life may be agreed on in another order than they were made; more than
///   `window` apart, the older one counts as applied.
/// - Of each node the newest lives are remembered, more than a node that crashes again and again has
///   while a leader stands still: what the older ones had on the way has long arrived.
/// - Of a node that was taken out nothing is remembered, and nothing it proposed is applied.
package struct ProposalTable: Hashable, Sendable {
    struct Row: Hashable, Sendable {
        var node: NodeNumber
        var boot: UInt64
        /// The largest number seen.
        var last: UInt64
        /// Bit i: number `last - i` was seen.
        var seen: UInt64
        /// Bit i: number `last - i` was seen, and changed nothing.
        var refused: UInt64 = 0
    }

    package static let window: UInt64 = 64
    static let livesMax = 32

    /// By node, each node's lives from the oldest to the newest.
    var rows: [Row] = []

    /// Takes note of a proposal.
    ///
    /// - Returns: Whether it is the first time; always for number 0, which nobody counts.
    mutating func take(_ node: NodeNumber, boot: UInt64, number: UInt64) -> Bool {
        if number == 0 { return true }
        guard let place = rows.firstIndex(where: { $0.node == node && $0.boot == boot }) else {
            let row = Row(node: node, boot: boot, last: number, seen: 1)
            rows.insert(row, at: rows.firstIndex { $0.node > node } ?? rows.count)
            let lives = rows.indices.filter { rows[$0].node == node }
            if lives.count > Self.livesMax { rows.remove(at: lives[0]) }
            return true
        }
        let last = rows[place].last
        if number > last {
            let distance = number - last
            rows[place].last = number
            rows[place].seen = distance < Self.window ? rows[place].seen << distance | 1 : 1
            rows[place].refused = distance < Self.window ? rows[place].refused << distance : 0
            return true
        }
        let distance = last - number
        guard distance < Self.window, rows[place].seen & 1 << distance == 0 else { return false }
        rows[place].seen |= 1 << distance
        return true
    }

    /// The proposal that was just taken changed nothing.
    mutating func noteRefused(_ node: NodeNumber, boot: UInt64, number: UInt64) {
        guard let place = rows.firstIndex(where: { $0.node == node && $0.boot == boot }),
            number <= rows[place].last, rows[place].last - number < Self.window
        else { return }
        rows[place].refused |= 1 << (rows[place].last - number)
    }

    /// Whether a proposal that comes once more did what it asked for; not known of one that is
    /// too old.
    func wasApplied(_ node: NodeNumber, boot: UInt64, number: UInt64) -> Bool {
        guard let row = rows.first(where: { $0.node == node && $0.boot == boot }),
            number <= row.last, row.last - number < Self.window
        else { return false }
        let bit: UInt64 = 1 << (row.last - number)
        return row.seen & bit != 0 && row.refused & bit == 0
    }

    mutating func forget(_ node: NodeNumber) { rows.removeAll { $0.node == node } }
}
