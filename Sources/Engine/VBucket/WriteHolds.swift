internal import Vocabulary

/// Reasons for which an active copy refuses clients' writes for now, and serves reads.
///
/// A held copy makes no change of its own, not even by expiry. It still decides the durable writes
/// that it has prepared, and a replica still receives changes.
package struct WriteHolds: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The node stops: what it has acknowledged is being persisted.
    package static let nodeStop = WriteHolds(rawValue: 1)
    /// No change of the copy's file was persisted for too long, because commits fail or hang.
    package static let stalledDisk = WriteHolds(rawValue: 2)
}

extension Bucket {
    /// Refuses clients' writes to every vBucket.
    ///
    /// - Postcondition: No later write is acknowledged, except a durable one that was prepared.
    package func holdWrites(_ reason: WriteHolds) {
        for vBucket in all { vBucket.withCore { $0.holdWrites(reason) } }
    }

    /// The changes of all copies that are not on disk.
    package var unpersistedCount: UInt64 {
        all.reduce(0) { sum, vBucket in
            sum + vBucket.withCore { $0.highSeqno.value - $0.durableSeqno.value }
        }
    }
}

extension VBucketCore {
    /// Refuses clients' writes until `releaseWrites` is called for the same reason.
    package mutating func holdWrites(_ reason: WriteHolds) { writeHolds.insert(reason) }

    package mutating func releaseWrites(_ reason: WriteHolds) { writeHolds.remove(reason) }
}
