internal import Bytes
internal import Engine
internal import Foundation
internal import LinuxPlatform
internal import Persistence
internal import Seams
internal import Vocabulary

/// The disk's part: commits, and the loading of metadata at a start.
enum StorageCases {
    /// Commits `operations` documents: packing, compressing, and SQLite's part.
    static func commit(_ operations: Int) throws {
        try withStore { store, _ in
            let documents = FlushDocuments(count: operations)
            let batches = fill(documents, store)
            try measuredWork {
                for (lane, batch) in batches { try store.lanes[lane].commit(batch) }
            }
        }
    }

    /// Loads keys and metadata of `operations` documents into tables, as warmup does.
    static func warmUp(_ operations: Int) throws {
        try withStore { store, world in
            let documents = FlushDocuments(count: operations)
            for (lane, batch) in fill(documents, store) { try store.lanes[lane].commit(batch) }
            let settings = BucketSettings(
                name: "micro",
                uuid: String(repeating: "0", count: 32),
                quota: 4 << 30
            )
            let bucket = Bucket(
                settings,
                hash: KeyHash(seed: 11),
                reclaimer: Reclaimer(quiescence: world.environment.network.quiescence),
                newUUID: { VBucketUUID(1) }
            )
            for record in try store.records().records {
                bucket[record.id.number]?.withCore { $0.beginWarmup(record) }
            }
            let arena = Arena(pool: ChunkPool())
            let turn = ExecutionContext(wallNanoseconds: 1, arena: arena, scratch: ByteWriter())
            try measuredWork {
                for lane in store.lanes { try load(lane, into: bucket, turn) }
            }
            let loaded = bucket.all.reduce(0) { $0 + $1.withCore { $0.liveCount } }
            precondition(loaded == operations, "\(loaded) of \(operations) documents were loaded")
        }
    }

    private static func load(_ lane: LaneStore, into bucket: Bucket, _ turn: ExecutionContext)
        throws
    {
        var position: ScanPosition? = .start
        while let from = position {
            position = try lane.scanMetadata(from: from, blocksMax: 64) { id, cursor in
                bucket[id.number]?.withCore { core in
                    while cursor.next() {
                        _ = core.load(
                            cursor.meta,
                            key: cursor.key,
                            valueCount: cursor.valueLength,
                            hash: bucket.hash(cursor.key),
                            turn
                        )
                    }
                }
                return true
            }
        }
    }

    private static func withStore(
        _ body: (BucketStore, LinuxEnvironment) throws -> Void
    ) throws {
        let world = LinuxEnvironment.make(reactors: 1, logLevel: .error)
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "divan-micro-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let store = try BucketStore.open(
            disk: world.environment.disk,
            directory: directory,
            name: "micro",
            uuid: String(repeating: "0", count: 32),
            settings: StoreSettings(),
            now: 1
        )
        try body(store, world)
    }

    /// The first version of every document, in batches of one lane each.
    private static func fill(
        _ documents: FlushDocuments,
        _ store: BucketStore
    ) -> [(lane: Int, batch: CommitBatch)] {
        var batches: [(Int, CommitBatch)] = []
        for lane in 0..<store.settings.lanes {
            for draw in documents.inserts(lane: lane, lanes: store.settings.lanes) {
                let batch = CommitBatch()
                documents.append(draw(), to: batch)
                batches.append((lane, batch))
            }
        }
        return batches
    }
}
