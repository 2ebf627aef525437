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
        let vBucket = try vBucket(of: key)
        let turn = turn
        let outcome = Array(key.utf8).withUnsafeBytes { key in
            value.withUnsafeBytes { value in
                vBucket.withCore { core -> ApplyOutcome in
                    core.become(.replica)
                    let end = Seqno(core.highSeqno.value + 1)
                    guard core.beginSnapshot(SnapshotRange(start: core.highSeqno, end: end)) else {
                        return .refused
                    }
                    let meta = DocumentMeta(
                        seqno: end,
                        cas: CAS(turn.wallNanoseconds + end.value),
                        expiry: isDeleted ? turn.seconds : expiry,
                        datatype: value.isEmpty ? [] : .xattr,
                        isDeleted: isDeleted
                    )
                    let (key, value) = (ByteView(key), ByteView(value))
                    let hash = bucket.engine.hash(key)
                    defer { core.promote(nil) }
                    return core.apply(meta, key: key, hash: hash, value: value, turn)
                }
            }
        }
        guard case .applied = outcome else {
            Issue.record("\(key) was not stored: \(outcome)")
            return
        }
        bucket.noteChanged(vBucket.withCore { $0.id })
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
