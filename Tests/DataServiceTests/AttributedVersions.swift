import Bytes
import DataService
import Engine
import TestWorld
import Testing
import Vocabulary

/// Versions with extended attributes, stored as another copy sends them.
extension TestWorld {
    /// The stored form of a document with attributes.
    static func stored(_ pairs: [(key: String, value: String)], body: String = "") -> [UInt8] {
        let parts = pairs.flatMap { pair in
            let bytes = Array(pair.key.utf8) + [0] + Array(pair.value.utf8) + [0]
            return big(UInt32(bytes.count)) + bytes
        }
        return big(UInt32(parts.count)) + parts + Array(body.utf8)
    }

    func vBucket(of key: String, in bucket: String = "guests") throws -> VBucket {
        let engine = try #require(service.bucket(named: bucket)).engine
        let number = VBucketID(ofKey: Array(key.utf8), count: engine.count).number
        return try #require(engine[number])
    }

    /// Stores a version; a value has attributes, none is a tombstone without a value.
    func put(
        _ key: String,
        _ value: [UInt8],
        isDeleted: Bool = true,
        expiry: UInt32 = 0
    ) throws {
        let bucket = try #require(service.bucket(named: "guests"))
        let version = AttributedVersion(key, value, isDeleted: isDeleted, expiry: expiry)
        version.put(into: bucket, turn)
    }

    /// Applies a JSON document to a replica as the first change, as its active copy sends it.
    func replicate(_ key: String, _ text: String) throws {
        let engine = try #require(service.bucket(named: "guests")).engine
        let vBucket = try vBucket(of: key)
        let meta = DocumentMeta(seqno: Seqno(1), cas: CAS(7), datatype: .json)
        let turn = turn
        let outcome = Array(key.utf8).withUnsafeBytes { key in
            Array(text.utf8).withUnsafeBytes { value in
                vBucket.withCore { core -> ApplyOutcome in
                    let range = SnapshotRange(start: .zero, end: Seqno(1))
                    guard core.beginSnapshot(range) else { return .refused }
                    let (key, value) = (ByteView(key), ByteView(value))
                    return core.apply(meta, key: key, hash: engine.hash(key), value: value, turn)
                }
            }
        }
        guard case .applied = outcome else {
            Issue.record("the version was not applied: \(outcome)")
            return
        }
    }

    /// A version in the table.
    struct Found: Equatable {
        var isDeleted: Bool
        var datatype: Datatype
        /// Nil if it is ejected.
        var value: [UInt8]?
    }

    func find(_ key: String) throws -> Found? {
        let vBucket = try vBucket(of: key)
        let engine = try #require(service.bucket(named: "guests")).engine
        return Array(key.utf8).withUnsafeBytes { key in
            vBucket.withCore { core in
                let key = ByteView(key)
                return core.table.find(key, hash: engine.hash(key)).map { place in
                    let item = place.item
                    return Found(
                        isDeleted: item.isDeleted,
                        datatype: item.datatype,
                        value: item.isEjected ? nil : item.value.bytes
                    )
                }
            }
        }
    }

    /// Ejects whatever may leave memory, also documents that are used often.
    func ejectEverything() {
        for _ in 0..<2 { ejectAll(from: "guests") }
    }
}

/// A version to store.
struct AttributedVersion {
    let key: [UInt8]
    /// In the stored form; empty for a version without attributes.
    let value: [UInt8]
    let isDeleted: Bool
    let expiry: UInt32

    init(_ key: String, _ value: [UInt8], isDeleted: Bool, expiry: UInt32 = 0) {
        self.key = Array(key.utf8)
        self.value = value
        self.isDeleted = isDeleted
        self.expiry = expiry
    }

    /// Makes the version the newest one of an active copy, as if another copy had sent it.
    func put(into bucket: OpenBucket, _ turn: ExecutionContext) {
        let id = VBucketID(ofKey: key, count: bucket.engine.count)
        let outcome = key.withUnsafeBytes { key in
            value.withUnsafeBytes { value in
                bucket.engine[id.number]?.withCore { core -> ApplyOutcome in
                    core.become(.replica)
                    defer { core.promote(nil) }
                    let end = Seqno(core.highSeqno.value + 1)
                    guard core.beginSnapshot(SnapshotRange(start: core.highSeqno, end: end)) else {
                        return .refused
                    }
                    let (key, value) = (ByteView(key), ByteView(value))
                    let (meta, hash) = (meta(end, turn), bucket.engine.hash(key))
                    return core.apply(meta, key: key, hash: hash, value: value, turn)
                }
            }
        }
        guard case .applied? = outcome else {
            Issue.record("the version was not stored: \(String(describing: outcome))")
            return
        }
        bucket.recordChange(id)
    }

    private func meta(_ seqno: Seqno, _ turn: ExecutionContext) -> DocumentMeta {
        DocumentMeta(
            seqno: seqno,
            cas: CAS(turn.wallNanoseconds + seqno.value),
            expiry: isDeleted ? turn.seconds : expiry,
            datatype: value.isEmpty ? [] : .xattr,
            isDeleted: isDeleted
        )
    }
}
