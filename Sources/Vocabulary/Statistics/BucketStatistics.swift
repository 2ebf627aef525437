package import Bytes

/// The statistics of one bucket on one node: its copies, and a number for each `Statistic`.
///
/// - Counters only grow while the bucket is open.
package struct BucketStatistics: Hashable, Sendable {
    package var copies = CopyItems()
    private var numbers = [UInt64](repeating: 0, count: Statistic.allCases.count)

    package init() {}

    /// The number of a statistic; those of items and copies are derived and are not set.
    package subscript(statistic: Statistic) -> UInt64 {
        get {
            switch statistic {
            case .items: copies.items(.active)
            case .replicaItems:
                [VBucketState.replica, .pending, .dead].reduce(0) { $0 &+ copies.items($1) }
            case .allItems: self[.items] &+ self[.replicaItems]
            case .nonResidentItems: self[.items] - min(self[.items], self[.residentItems])
            case .activeVBuckets: copies.count(.active)
            case .replicaVBuckets: copies.count(.replica)
            case .pendingVBuckets: copies.count(.pending)
            default: numbers[statistic.rawValue]
            }
        }
        set { numbers[statistic.rawValue] = newValue }
    }

    /// Percent of the items whose value is in memory; 100 if there are no items.
    package var residentPercent: Double {
        let items = self[.items]
        return items == 0 ? 100 : Double(min(self[.residentItems], items)) * 100 / Double(items)
    }

    /// The names of a list with their numbers, as text.
    package func lines(_ list: [Statistic.Named]) -> [(String, String)] {
        list.map { ($0.name, String(self[$0.statistic])) }
    }
}

extension BucketStatistics: ExtensibleFields {
    /// The least count of numbers in a message: those after them are left out while they are 0, so
    /// that a new statistic does not change a recorded message.
    private static let numbersMin = Statistic.bytesWritten.rawValue + 1

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        // Another release may send more numbers, or fewer.
        var sent = Statistic.sent.map { self[$0] }
        while sent.count > Self.numbersMin, sent.last == 0 { sent.removeLast() }
        try coder.field(&sent, "numbers")
        for (statistic, number) in zip(Statistic.sent, sent) { self[statistic] = number }
        try coder.field(&copies, "copies")
    }
}
