internal import Bytes
internal import Vocabulary

/// The applied proposals, so that a proposal that is retried without an answer is applied once.
///
/// - Proposals of one boot may be agreed on in another order than they were made. If two are at
///   least `window` apart, the older one counts as applied.
/// - The newest `livesMax` boots of each node are remembered: more than a crashing node starts
///   while the log makes no progress, so proposals of forgotten boots can no longer be in flight.
/// - A removed node has no rows, and its late proposals are refused.
package struct ProposalTable: Hashable, Sendable {
    /// The proposals of one boot of a node.
    struct Row: Hashable, Sendable, CodedFields {
        var node = NodeNumber(0)
        var boot: UInt64 = 0
        /// The largest number seen.
        var last: UInt64 = 0
        /// Bit i: number `last - i` was seen.
        var seen: UInt64 = 0
        /// Bit i: number `last - i` was seen and refused.
        var refused: UInt64 = 0

        mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            // As in an envelope, 0 is valid.
            var number = node.value
            try coder.field(&number, "node")
            node = NodeNumber(number)
            try coder.fixed(&boot, "boot")
            try coder.field(&last, "last number")
            try coder.fixed(&seen, "numbers seen")
            try coder.fixed(&refused, "numbers refused")
        }
    }

    package static let window: UInt64 = 64
    static let livesMax = 32

    /// Sorted by node; each node's boots from the oldest to the newest.
    var rows: [Row] = []

    /// Records a proposal as seen.
    ///
    /// - Returns: Whether it is new; always true for number 0, which is not tracked.
    mutating func record(_ node: NodeNumber, boot: UInt64, number: UInt64) -> Bool {
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

    /// Records that the proposal just recorded was refused.
    mutating func recordRefusal(_ node: NodeNumber, boot: UInt64, number: UInt64) {
        guard let place = rows.firstIndex(where: { $0.node == node && $0.boot == boot }),
            number <= rows[place].last, rows[place].last - number < Self.window
        else { return }
        rows[place].refused |= 1 << (rows[place].last - number)
    }

    /// Whether a repeated proposal was applied when first seen; false if it was refused or is too
    /// old to know.
    func wasApplied(_ node: NodeNumber, boot: UInt64, number: UInt64) -> Bool {
        guard let row = rows.first(where: { $0.node == node && $0.boot == boot }),
            number <= row.last, row.last - number < Self.window
        else { return false }
        let bit: UInt64 = 1 << (row.last - number)
        return row.seen & bit != 0 && row.refused & bit == 0
    }

    mutating func forget(_ node: NodeNumber) { rows.removeAll { $0.node == node } }
}
