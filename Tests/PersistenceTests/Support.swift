import Bytes
import Foundation
import Persistence
import TestSupport
import Vocabulary

/// A bucket's directory that is removed after the test.
final class TemporaryBucket {
    let root: String
    var directory: String { root + "/bucket" }
    let uuid = "0123456789abcdef0123456789abcdef"
    var settings: StoreSettings

    init(lanes: Int = 2, vBuckets: Int = 64) {
        root =
            FileManager.default.temporaryDirectory
            .appending(path: "divan-persistence-\(UUID().uuidString)").path
        settings = StoreSettings()
        settings.lanes = lanes
        settings.vBuckets = vBuckets
    }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    func open() throws -> BucketStore {
        try BucketStore.open(
            disk: FileDisk(),
            directory: directory,
            name: "bucket",
            uuid: uuid,
            settings: settings,
            now: 1_700_000_000
        )
    }

    func lanePath(_ lane: Int, generation: Int = 1) -> String {
        "\(directory)/generation-\(generation)/lane-0\(lane).sqlite"
    }

    /// The findings of SQLite's integrity check over all lane files.
    func integrity(generation: Int = 1) throws -> [String] {
        var found: [String] = []
        for lane in 0..<settings.lanes {
            let path = lanePath(lane, generation: generation)
            guard FileManager.default.fileExists(atPath: path) else { continue }
            let connection = try SQLiteConnection(path: path, mode: .read, vfs: nil)
            found += try connection.texts("PRAGMA integrity_check").filter { $0 != "ok" }
        }
        return found
    }
}

/// A whole document: metadata, key and value.
struct TestDocument: Hashable {
    var meta: DocumentMeta
    var key: [UInt8]
    var value: [UInt8]
}

func withView<Result>(_ bytes: [UInt8], _ body: (ByteView) throws -> Result) rethrows -> Result {
    try bytes.withUnsafeBytes { try body(ByteView($0)) }
}

extension CommitBatch {
    func append(_ document: TestDocument) {
        withView(document.key) { key in
            withView(document.value) { value in
                append(document.meta, key: key, value: value)
            }
        }
    }
}

func record(_ vBucket: UInt16, high: UInt64, state: VBucketState = .active) -> VBucketRecord {
    var record = VBucketRecord(
        id: VBucketID(vBucket),
        state: state,
        failoverLog: FailoverLog(first: VBucketUUID(UInt64(vBucket) + 77))
    )
    record.highSeqno = Seqno(high)
    record.snapshotStart = record.highSeqno
    record.snapshotEnd = record.highSeqno
    return record
}

extension SeededRandom {
    mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: next() >> 20) }
    }

    /// Text that compresses about as well as JSON.
    mutating func text(_ count: Int) -> [UInt8] {
        let words = ["alpha", "beta", "gamma", "delta", "{\"name\":", "null,", "12345", "true"]
        var bytes: [UInt8] = []
        while bytes.count < count { bytes += Array(words[below(words.count)].utf8) }
        return Array(bytes.prefix(count))
    }

    /// A document with random values in every field.
    mutating func document(seqno: UInt64, key: [UInt8], value: [UInt8]) -> TestDocument {
        var meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(next()))
        if below(2) == 0 { meta.revision = next() >> UInt64(below(64)) }
        if below(2) == 0 { meta.flags = UInt32(truncatingIfNeeded: next()) }
        if below(2) == 0 { meta.expiry = UInt32(truncatingIfNeeded: next()) }
        meta.datatype = Datatype(rawValue: UInt8(below(8)))
        meta.isDeleted = below(4) == 0
        meta.isExpired = meta.isDeleted && below(2) == 0
        return TestDocument(meta: meta, key: key, value: value)
    }
}

extension LaneStore {
    func value(_ vBucket: UInt16, _ seqno: UInt64) throws -> [UInt8]? {
        let writer = ByteWriter()
        let isFound = try fetchValue(VBucketID(vBucket), Seqno(seqno), into: writer)
        return isFound ? writer.bytes : nil
    }

    func document(_ vBucket: UInt16, _ seqno: UInt64) throws -> TestDocument? {
        var found: TestDocument?
        let isFound = try fetchDocument(VBucketID(vBucket), Seqno(seqno)) { meta, key, value in
            found = TestDocument(meta: meta, key: key.bytes, value: value.bytes)
        }
        return isFound ? found : nil
    }

    /// The newest version of every key in the lane, as warmup would find it.
    func newest() throws -> [UInt16: [[UInt8]: DocumentMeta]] {
        var found: [UInt16: [[UInt8]: DocumentMeta]] = [:]
        var position: ScanPosition? = .start
        while let from = position {
            position = try scanMetadata(from: from, blocksMax: 3) { vBucket, cursor in
                while cursor.next() {
                    let key = cursor.key.bytes
                    let before = found[vBucket.number]?[key]?.seqno ?? .zero
                    if cursor.seqno > before {
                        found[vBucket.number, default: [:]][key] = cursor.meta
                    }
                }
                return true
            }
        }
        return found
    }
}
