import Bytes
import Engine
import Vocabulary

/// A replica that receives documents and tombstones with values, and the disk behind it.
final class Burial {
    struct Version {
        let number: Int
        let meta: DocumentMeta
        let value: [UInt8]
    }

    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket
    /// What commits wrote, by seqno.
    var disk: [UInt64: Version] = [:]

    init(_ policy: EvictionPolicy, quota: UInt64 = 1 << 40) throws {
        bucket = stage.bucket(quota: quota, policy: policy)
        guard let vBucket = bucket[1] else { throw CancellationError() }
        self.vBucket = vBucket
        vBucket.withCore { $0.become(.replica) }
    }

    func with<Result>(
        _ number: Int,
        _ body: (inout VBucketCore, ByteView, UInt64) -> Result
    ) -> Result {
        let bytes = key(number)
        let hash = stage.hash(of: bytes)
        return viewing(bytes) { key in vBucket.withCore { body(&$0, key, hash) } }
    }

    /// Applies a version as the active copy sends it; a value has extended attributes.
    @discardableResult
    func apply(
        _ number: Int,
        _ value: [UInt8] = [],
        isDeleted: Bool = true,
        expiry: UInt32 = 0
    ) -> ApplyOutcome {
        stage.nanoseconds += 100_000
        let turn = stage.turn
        return viewing(value) { value in
            with(number) { core, key, hash in
                let end = Seqno(core.highSeqno.value + 1)
                _ = core.beginSnapshot(SnapshotRange(start: core.highSeqno, end: end))
                let meta = DocumentMeta(
                    seqno: end,
                    cas: CAS(turn.wallNanoseconds),
                    expiry: isDeleted ? turn.seconds : expiry,
                    datatype: value.isEmpty ? [] : .xattr,
                    isDeleted: isDeleted
                )
                return core.apply(meta, key: key, hash: hash, value: value, turn)
            }
        }
    }

    func persistAll() {
        vBucket.withCore { core in
            let drain = core.drain()
            for entry in drain.entries {
                let item = entry.item
                let text = String(decoding: item.key.bytes.dropFirst(4), as: UTF8.self)
                disk[item.seqno.value] = Version(
                    number: Int(text) ?? -1,
                    meta: item.meta,
                    value: item.value.bytes
                )
            }
            core.persisted(through: drain.boundary)
        }
    }

    func evictAll() {
        let turn = stage.turn
        var next: UInt64? = 0
        while let place = next {
            next = vBucket.withCore {
                $0.ejectSlice(from: place, groupsMax: 50, threshold: .max, turn).next
            }
        }
    }

    /// Ejects a value alone, as during warmup or if too few hash bits are left for a stub.
    func eject(_ number: Int) -> Int {
        let turn = stage.turn
        return with(number) { $0.eject($1, hash: $2, turn) }
    }

    func restore(_ seqno: UInt64, withValue: Bool) -> Bool {
        guard let version = disk[seqno] else { return false }
        let turn = stage.turn
        return viewing(version.value) { value in
            with(version.number) { core, key, _ in
                core.restore(
                    version.meta,
                    key: key,
                    valueCount: value.count,
                    value: withValue ? value : nil,
                    turn
                )
            }
        }
    }

    func install(_ seqno: UInt64) -> Bool {
        guard let version = disk[seqno] else { return false }
        let turn = stage.turn
        return viewing(version.value) { value in
            with(version.number) { core, key, hash in
                core.install(value, of: Seqno(seqno), key: key, hash: hash, turn)
            }
        }
    }

    /// A version in the table; the value is nil if it is ejected.
    struct Found: Equatable {
        var isDeleted: Bool
        var hasAttributes: Bool
        var valueCount: Int
        var value: [UInt8]?
    }

    func find(_ number: Int) -> Found? {
        with(number) { core, key, hash in
            core.table.find(key, hash: hash).map { place in
                let item = place.item
                return Found(
                    isDeleted: item.isDeleted,
                    hasAttributes: item.datatype.contains(.xattr),
                    valueCount: item.valueCount,
                    value: item.isEjected ? nil : item.value.bytes
                )
            }
        }
    }

    struct Counts: Equatable {
        var live = 0
        var tombstones = 0
        /// Live documents without a value in memory, stubs included.
        var ejected = 0
        /// Tombstones in the table without their value.
        var ejectedTombstones = 0
        var stubs = 0
    }

    var counts: Counts {
        vBucket.withCore { core in
            Counts(
                live: core.liveCount,
                tombstones: core.tombstoneCount,
                ejected: core.ejectedCount,
                ejectedTombstones: core.ejectedTombstoneCount,
                stubs: core.table.stubCount
            )
        }
    }

    /// Whether the account has every byte.
    var isAccountExact: Bool {
        let recount = vBucket.withCore { $0.recount() }
        return bucket.account.bytes == UInt64(recount)
    }

    /// The stored form of a document with extended attributes.
    static func stored(_ pairs: [(key: String, value: String)], body: String = "") -> [UInt8] {
        var bytes: [UInt8] = []
        for pair in pairs {
            let pair = Array(pair.key.utf8) + [0] + Array(pair.value.utf8) + [0]
            bytes += big(UInt32(pair.count)) + pair
        }
        return big(UInt32(bytes.count)) + bytes + Array(body.utf8)
    }

    private static func big(_ number: UInt32) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }
}
