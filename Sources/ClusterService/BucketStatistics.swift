package import Bytes
internal import Vocabulary

/// The statistics of one bucket on one node.
///
/// Counters only grow while the bucket is open.
package struct BucketStatistics: Hashable, Sendable {
    // Now.
    package var copies = CopyItems()
    package var tombstones: UInt64 = 0
    /// Items whose value is in memory.
    package var residentItems: UInt64 = 0
    package var memoryUsed: UInt64 = 0
    package var quota: UInt64 = 0
    package var lowWatermark: UInt64 = 0
    package var highWatermark: UInt64 = 0
    /// Bytes of the bucket's files, and the part of them that is not superseded.
    package var diskUsed: UInt64 = 0
    package var diskDataUsed: UInt64 = 0
    /// Changes that are not persisted yet.
    package var diskQueue: UInt64 = 0
    package var oldestUnpersistedMilliseconds: UInt64 = 0
    /// Data connections that have the bucket selected.
    package var connections: UInt64 = 0

    // Since the bucket was opened.
    package var cmdGet: UInt64 = 0
    package var cmdSet: UInt64 = 0
    package var cmdDelete: UInt64 = 0
    package var getHits: UInt64 = 0
    package var getMisses: UInt64 = 0
    /// Commands of any kind.
    package var opsTotal: UInt64 = 0
    package var backgroundFetches: UInt64 = 0
    package var ejections: UInt64 = 0
    package var expired: UInt64 = 0
    package var temporaryFailures: UInt64 = 0
    package var casMismatches: UInt64 = 0
    package var commits: UInt64 = 0
    package var persistedChanges: UInt64 = 0
    package var commitFailures: UInt64 = 0
    package var bytesRead: UInt64 = 0
    package var bytesWritten: UInt64 = 0

    package init() {}

    /// Items of active copies.
    package var items: UInt64 { copies.items(.active) }

    /// Items of copies that do not serve.
    package var replicaItems: UInt64 {
        [VBucketState.replica, .pending, .dead].reduce(0) { $0 &+ copies.items($1) }
    }

    /// Percent of the items whose value is in memory; 100 if there are no items.
    package var residentPercent: Double {
        items == 0 ? 100 : Double(min(residentItems, items)) * 100 / Double(items)
    }
}

extension BucketStatistics: ExtensibleFields {
    /// In the order of the encoding; new fields are appended.
    private static var numbers: [WritableKeyPath<BucketStatistics, UInt64>] {
        [
            \.tombstones, \.residentItems, \.memoryUsed, \.quota,
            \.lowWatermark, \.highWatermark, \.diskUsed, \.diskDataUsed, \.diskQueue,
            \.oldestUnpersistedMilliseconds, \.connections, \.cmdGet, \.cmdSet, \.cmdDelete,
            \.getHits, \.getMisses, \.opsTotal, \.backgroundFetches, \.ejections, \.expired,
            \.temporaryFailures, \.casMismatches, \.commits, \.persistedChanges,
            \.commitFailures, \.bytesRead, \.bytesWritten,
        ]
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        // Another release may send more numbers, or fewer.
        var numbers = Self.numbers.map { self[keyPath: $0] }
        try coder.field(&numbers, "numbers")
        for (place, number) in zip(Self.numbers, numbers) { self[keyPath: place] = number }
        try coder.field(&copies, "copies")
    }
}
