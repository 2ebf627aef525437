import Bytes
import Engine
import Foundation
import LinuxPlatform
import Persistence
import Replication
import Testing
import Vocabulary

/// A version as tests think of it.
struct Change: Equatable {
    let key: [UInt8]
    let meta: DocumentMeta
    let value: [UInt8]
}

/// Lends `bytes` as a view for the length of `body`.
func viewing<Result>(_ bytes: [UInt8], _ body: (ByteView) throws -> Result) rethrows -> Result {
    try bytes.withUnsafeBytes { try body(ByteView($0)) }
}

/// One node's copy of a vBucket: a real engine over real files.
final class Copy {
    let root = FileManager.default.temporaryDirectory
        .appending(path: "divan-replication-\(UUID().uuidString)").path
    let arena = Arena(pool: ChunkPool())
    let scratch = ByteWriter()
    let hash = KeyHash(seed: 42)
    let reclaimer = Reclaimer(quiescence: Quiescence(reactorCount: 1))
    let id = VBucketID(3)
    let type: BucketType
    let store: BucketStore
    var bucket: Bucket
    var vBucket: VBucket
    var nanoseconds: UInt64 = 1_700_000_000_000_000_000

    init(_ type: BucketType, state: VBucketState, uuid: UInt64) throws {
        self.type = type
        var settings = StoreSettings()
        settings.lanes = 1
        settings.vBuckets = 64
        settings.blocks.rawBytes = 600
        settings.blocks.documents = 6
        settings.blocks.pureDocumentsMin = 3
        store = try BucketStore.open(
            disk: LinuxDisk(),
            directory: root + "/bucket",
            name: "bucket",
            uuid: "0123456789abcdef0123456789abcdef",
            settings: settings,
            now: 1_700_000_000
        )
        bucket = Copy.bucket(type, hash, reclaimer)
        vBucket = try #require(bucket[3])
        vBucket.withCore { $0.reset(to: state, uuid: VBucketUUID(uuid)) }
    }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    private static func bucket(
        _ type: BucketType,
        _ hash: KeyHash,
        _ reclaimer: Reclaimer
    ) -> Bucket {
        var settings = BucketSettings(name: "bucket", uuid: "0", quota: 1 << 40)
        settings.type = type
        settings.vBuckets = 64
        settings.evictionPolicy = type == .persistent ? .valueOnly : .noEviction
        return Bucket(settings, hash: hash, reclaimer: reclaimer) { VBucketUUID(7) }
    }

    var lane: LaneStore { store.lane(of: id) }

    var turn: Turn { Turn(wallNanoseconds: nanoseconds, arena: arena, scratch: scratch) }

    var standing: CopyStanding {
        vBucket.withCore {
            CopyStanding(log: $0.failoverLog, high: $0.highSeqno, openSnapshot: $0.openSnapshot)
        }
    }

    func hashed(_ key: [UInt8]) -> UInt64 { viewing(key) { hash($0) } }

    // MARK: Documents

    func set(_ key: [UInt8], _ value: [UInt8], expiry: UInt32, flags: UInt32) throws {
        nanoseconds += 100_000
        try fetch(key)
        let hash = hashed(key)
        let outcome = viewing(key) { key in
            viewing(value) { value in
                let request = StoreRequest(
                    key: key,
                    hash: hash,
                    value: value,
                    flags: flags,
                    expiry: expiry,
                    datatype: .json,
                    cas: .none,
                    mode: .set,
                    preservesExpiry: false
                )
                return vBucket.withCore { $0.store(request, turn) }
            }
        }
        guard case .stored = outcome else {
            Issue.record("a set came to \(outcome)")
            return
        }
    }

    func delete(_ key: [UInt8]) throws {
        nanoseconds += 100_000
        try fetch(key)
        let hash = hashed(key)
        viewing(key) { key in
            _ = vBucket.withCore { $0.delete(key, hash: hash, cas: .none, turn) }
        }
    }

    /// Metadata of an active copy's document, expired where its time has come.
    func meta(_ key: [UInt8]) throws -> DocumentMeta? {
        try fetch(key)
        let hash = hashed(key)
        return viewing(key) { key in
            vBucket.withCore { core in
                guard case .found(let item, _) = core.getMeta(key, hash: hash, turn) else {
                    return nil
                }
                return item.meta
            }
        }
    }

    private func fetch(_ key: [UInt8]) throws {
        let hash = hashed(key)
        while true {
            let missing: Seqno? = viewing(key) { key in
                vBucket.withCore { core in
                    guard
                        case .wouldBlock(.metadata(let seqno)) = core.getMeta(
                            key,
                            hash: hash,
                            turn
                        )
                    else { return nil }
                    return seqno
                }
            }
            guard let missing else { return }
            try restore(missing)
        }
    }

    func restore(_ seqno: Seqno) throws {
        let outcome = try lane.fetchDocument(id, seqno) { meta, key, value in
            vBucket.withCore { core in
                _ = core.restore(meta, key: key, valueCount: value.count, value: value, turn)
            }
        }
        #expect(outcome == .found)
    }

    // MARK: Disk

    func flush() throws {
        guard type == .persistent else { return }
        let batch = CommitBatch()
        let drain = vBucket.withCore { core in
            let drain = core.drain()
            batch.begin(core.record(through: drain.boundary, casHorizon: 0))
            for entry in drain.entries {
                batch.append(entry.item.meta, key: entry.item.key, value: entry.item.value)
            }
            return drain
        }
        batch.superseded(drain.superseded)
        try lane.commit(batch)
        vBucket.withCore { $0.persisted(through: drain.boundary) }
    }

    func compact() throws {
        guard type == .persistent else { return }
        _ = try lane.compactStep(bytesMax: 4_000) { [self] _, key, seqno in
            vBucket.withCore { $0.currentSeqno(of: key, hash: hash(key), asked: seqno) }
        }
    }

    func eject() {
        guard type == .persistent else { return }
        vBucket.withCore { core in
            _ = core.ejectSlice(from: 0, groupsMax: .max / 2, threshold: .max, turn)
        }
    }

    /// Loses memory and loads what the disk has.
    func crash() throws {
        guard type == .persistent else { return }
        bucket = Copy.bucket(type, hash, reclaimer)
        vBucket = try #require(bucket[3])
        guard let record = try lane.records().first(where: { $0.id == id }) else {
            vBucket.withCore { $0.reset(to: .replica, uuid: VBucketUUID(nanoseconds)) }
            return
        }
        vBucket.withCore { $0.beginWarmup(record) }
        var seqno: Seqno? = .zero
        while let after = seqno {
            seqno = try lane.scanMetadata(id, after: after, blocksMax: 10) { cursor in
                vBucket.withCore { core in
                    while cursor.next() {
                        _ = core.load(
                            cursor.meta,
                            key: cursor.key,
                            valueCount: cursor.valueLength,
                            hash: hash(cursor.key),
                            turn
                        )
                    }
                }
                return true
            }
        }
        vBucket.withCore { core in
            core.endWarmup()
            // What it was when it last wrote does not count: the map says what it is.
            core.become(.replica)
        }
    }

    /// Gives up everything, to be built anew.
    func reset() throws {
        vBucket.withCore { $0.reset(to: .replica, uuid: VBucketUUID(nanoseconds)) }
        if type == .persistent { try lane.drop(id) }
    }

    /// All that the disk has of the vBucket as it is now, by key.
    func stored() throws -> [[UInt8]: Change] {
        var found: [[UInt8]: Change] = [:]
        let scan = lane.scan(id, after: .zero)
        repeat {
        } while try scan.slice(
            bytesMax: 1_000,
            isNeeded: { [self] key, seqno in
                vBucket.withCore {
                    $0.isNeeded(key, hash: hash(key), seqno: seqno, through: scan.end)
                }
            },
            visit: { meta, key, value in
                found[key.bytes] = Change(key: key.bytes, meta: meta, value: value.bytes)
            }
        ) == .more
        return found
    }
}
