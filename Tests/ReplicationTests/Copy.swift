import Bytes
import Engine
import Foundation
import LinuxPlatform
import Persistence
import Replication
import Testing
import Vocabulary
import Wire

/// A version as tests think of it.
struct Change: Equatable {
    let key: [UInt8]
    var meta: DocumentMeta
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

    var turn: ExecutionContext {
        ExecutionContext(wallNanoseconds: nanoseconds, arena: arena, scratch: scratch)
    }

    var resumePoint: ResumePoint {
        vBucket.withCore {
            ResumePoint(log: $0.failoverLog, high: $0.highSeqno, openSnapshot: $0.openSnapshot)
        }
    }

    func hashed(_ key: [UInt8]) -> UInt64 { viewing(key) { hash($0) } }

    // MARK: Documents

    /// A turn that has writes prepared, or an ordinary one.
    func turn(_ level: DurabilityLevel?) -> ExecutionContext {
        var turn = turn
        turn.durability = level
        return turn
    }

    func set(
        _ key: [UInt8],
        _ value: [UInt8],
        expiry: UInt32,
        flags: UInt32,
        _ level: DurabilityLevel? = nil
    ) throws -> WriteResult {
        nanoseconds += 100_000
        try fetch(key)
        let hash = hashed(key)
        return viewing(key) { key in
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
                return vBucket.withCore { $0.store(request, turn(level)) }
            }
        }
    }

    func delete(_ key: [UInt8], _ level: DurabilityLevel? = nil) throws -> WriteResult {
        nanoseconds += 100_000
        try fetch(key)
        let hash = hashed(key)
        return viewing(key) { key in
            vBucket.withCore { $0.delete(key, hash: hash, cas: .none, turn(level)) }
        }
    }

    /// Commits or aborts a prepare; what that needs from disk is fetched first.
    func complete(_ prepare: Seqno, commits: Bool) throws -> WriteResult {
        nanoseconds += 100_000
        while true {
            let outcome = vBucket.withCore { core in
                commits
                    ? core.commit(prepare, fence: 0, turn) : core.abort(prepare, fence: 0, turn)
            }
            guard case .wait(.metadata(let seqno)) = outcome else { return outcome }
            try restore(seqno)
        }
    }

    /// The prepares in memory, by key.
    func prepares() -> [[UInt8]: Change] {
        var found: [[UInt8]: Change] = [:]
        vBucket.withCore { core in
            core.forEachPrepare { item in
                let key = item.key.bytes
                found[key] = Change(key: key, meta: item.meta, value: item.value.bytes)
            }
        }
        return found
    }

    /// Metadata of an active copy's document, expired where its time has come.
    func meta(_ key: [UInt8]) throws -> DocumentMeta? {
        try fetch(key)
        let hash = hashed(key)
        return viewing(key) { key in
            vBucket.withCore { core in
                guard case .done(let (item, _)) = core.getMeta(key, hash: hash, turn) else {
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
                        case .wait(.metadata(let seqno)) = core.getMeta(
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
        let isFound = try lane.fetchDocument(id, seqno) { meta, key, value in
            vBucket.withCore { core in
                _ = core.restore(meta, key: key, valueCount: value.count, value: value, turn)
            }
        }
        #expect(isFound)
    }

    // MARK: Disk

    /// Brings the disk up to date; where that fails the same comes again with the next one.
    func flush(fails: Bool = false) throws {
        guard type == .persistent else { return }
        let batch = CommitBatch()
        let drain = vBucket.withCore { core in
            let drain = core.drain()
            batch.begin(core.record(through: drain.boundary, casHorizon: 0))
            for entry in drain.entries {
                let (meta, key, value) = (entry.item.meta, entry.item.key, entry.item.value)
                if let level = entry.item.level {
                    batch.append(prepare: meta, level: level, key: key, value: value)
                } else {
                    batch.append(meta, key: key, value: value)
                }
            }
            return drain
        }
        guard !fails else { return vBucket.withCore { $0.undrain(drain) } }
        batch.markSuperseded(drain.superseded)
        batch.markCompleted(drain.completedPrepares)
        try lane.commit(batch)
        vBucket.withCore { $0.persisted(through: drain.boundary) }
    }

    func compact() throws {
        guard type == .persistent else { return }
        _ = try lane.compactStep(bytesMax: 4_000) { [self] _, key, seqno in
            vBucket.withCore { $0.currentSeqno(of: key, hash: hash(key), asked: seqno) }
        }
    }

    /// What was purged, as it is told to others.
    var purge: NodePurge {
        vBucket.withCore { NodePurge(seqno: $0.purgeSeqno, maxRevision: $0.maxRevision) }
    }

    /// Forgets all tombstones, on disk first.
    func forgetTombstones() throws {
        guard type == .persistent else {
            vBucket.withCore { core in
                _ = core.forgetTombstones(
                    from: 0,
                    groupsMax: .max / 2,
                    deletedBefore: .max
                )
            }
            return
        }
        try flush()
        var gone: [(key: [UInt8], seqno: Seqno)] = []
        _ = try lane.purge(
            id,
            deletedBefore: .max,
            through: vBucket.withCore { $0.purgeableSeqno },
            currentSeqno: { [self] _, key, seqno in
                vBucket.withCore { $0.currentSeqno(of: key, hash: hash(key), asked: seqno) }
            },
            willPurge: { [self] summary in
                vBucket.withCore {
                    $0.notePurge(through: summary.purgeSeqno, maxRevision: summary.maxRevision)
                }
            },
            didPurge: { key, seqno in gone.append((key.bytes, seqno)) }
        )
        for (key, seqno) in gone {
            let hash = hashed(key)
            viewing(key) { key in
                vBucket.withCore { $0.forgetPurged(key, hash: hash, seqno: seqno) }
            }
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
        for prepare in try lane.prepares(of: id) { load(prepare) }
        vBucket.withCore { core in
            core.endWarmup()
            // What it was when it last wrote does not count: the map says what it is.
            core.become(.replica)
        }
    }

    private func load(_ prepare: StoredPrepare) {
        let hash = hashed(prepare.key)
        viewing(prepare.key) { key in
            viewing(prepare.value) { value in
                vBucket.withCore { core in
                    core.loadPrepare(
                        prepare.meta,
                        level: prepare.level,
                        key: key,
                        hash: hash,
                        value: value,
                        turn
                    )
                }
            }
        }
    }

    /// Gives up everything, to be built anew.
    func reset() throws {
        vBucket.withCore { $0.reset(to: .replica, uuid: VBucketUUID(nanoseconds)) }
        if type == .persistent { try lane.drop(id) }
    }

    /// All that the disk has of the vBucket as it is now, by key.
    ///
    /// The prepares that a scan gives are those that the file has.
    func stored() throws -> [[UInt8]: Change] {
        var found: [[UInt8]: Change] = [:]
        let scan = try lane.scan(id, after: .zero)
        var prepares: [Seqno] = []
        repeat {
        } while try scan.readSlice(
            bytesMax: 1_000,
            isNeeded: { [self] key, seqno in
                vBucket.withCore {
                    $0.isNeeded(key, hash: hash(key), seqno: seqno, through: scan.end)
                }
            },
            prepare: { prepares.append($0.meta.seqno) },
            visit: { meta, key, value in
                found[key.bytes] = Change(key: key.bytes, meta: meta, value: value.bytes)
            }
        ) == .more
        #expect(prepares == scan.outstanding)
        return found
    }

    /// The same of the prepares.
    func storedPrepares() throws -> [[UInt8]: Change] {
        var found: [[UInt8]: Change] = [:]
        for prepare in try lane.prepares(of: id) {
            found[prepare.key] = Change(
                key: prepare.key,
                meta: prepare.meta,
                value: prepare.value
            )
        }
        return found
    }
}
