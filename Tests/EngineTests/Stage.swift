import Bytes
import Engine
import Vocabulary

/// Everything around a bucket that a test needs: memory, time, and keys as text.
final class Stage {
    let arena = Arena(pool: ChunkPool())
    let scratch = ByteWriter()
    let hash = KeyHash(seed: 42)
    let quiescence = Quiescence(reactorCount: 1)
    let reclaimer: Reclaimer
    private var buckets: [Bucket] = []
    var seconds: UInt32 = 1_700_000_000
    /// Nanoseconds within the second, so that CASes look like those of a running clock.
    var nanoseconds: UInt64 = 0

    init() {
        reclaimer = Reclaimer(quiescence: quiescence)
    }

    var turn: ExecutionContext {
        ExecutionContext(
            wallNanoseconds: UInt64(seconds) * 1_000_000_000 + nanoseconds,
            arena: arena,
            scratch: scratch
        )
    }

    func bucket(
        _ type: BucketType = .persistent,
        quota: UInt64 = 1 << 40,
        vBuckets: Int = 64,
        policy: EvictionPolicy? = nil,
        isKept: Bool = true
    ) -> Bucket {
        var settings = BucketSettings(name: "stage", uuid: "0", quota: quota)
        settings.type = type
        settings.vBuckets = vBuckets
        settings.evictionPolicy = policy ?? (type == .persistent ? .valueOnly : .noEviction)
        let bucket = Bucket(settings, hash: hash, reclaimer: reclaimer) { VBucketUUID(7) }
        // A vBucket's handle does not keep its bucket.
        if isKept { buckets.append(bucket) }
        return bucket
    }

    /// A block with a version of `key`.
    func item(_ key: [UInt8], seqno: UInt64 = 1, value: [UInt8] = []) -> Item {
        var meta = DocumentMeta()
        meta.seqno = Seqno(seqno)
        let bytes = Item.bytes(for: meta, keyCount: key.count, valueCount: value.count)
        let item = Item(arena.allocate(bytes))
        viewing(key) { key in viewing(value) { item.write(meta, key: key, value: $0) } }
        return item
    }

    func free(_ item: Item) { Arena.free(item.address, item.blockBytes) }

    func hash(of key: [UInt8]) -> UInt64 { viewing(key) { hash($0) } }
}

/// Lends `bytes` as a view for the length of `body`.
func viewing<Result>(_ bytes: [UInt8], _ body: (ByteView) throws -> Result) rethrows -> Result {
    try bytes.withUnsafeBytes { try body(ByteView($0)) }
}

/// The key with a number.
func key(_ number: Int) -> [UInt8] { Array("key:\(number)".utf8) }

extension VBucketCore {
    /// Sums up what the account should say, item by item.
    func recount() -> Int {
        var bytes = table.bytes + checkpoint.bytes + prepareBytes
        var next: UInt64? = 0
        // In one call, so that nothing is seen twice.
        next = table.visit(from: 0, groupsMax: .max / 2) { item in
            bytes += SizeClass.footprint(of: item.blockBytes)
        }
        precondition(next == nil, "one visit was to see everything")
        return bytes
    }
}

extension Stage {
    /// Sets a document; nil where that was refused.
    func store(
        _ vBucket: VBucket,
        _ key: [UInt8],
        _ value: [UInt8],
        expiry: UInt32 = 0
    ) -> Stored? {
        let hash = hash(of: key)
        let outcome = viewing(key) { key in
            viewing(value) { value in
                let request = StoreRequest(
                    key: key,
                    hash: hash,
                    value: value,
                    flags: 0,
                    expiry: expiry,
                    datatype: [],
                    cas: .none,
                    mode: .set,
                    preservesExpiry: false
                )
                return vBucket.withCore { $0.store(request, turn) }
            }
        }
        guard case .done(let stored) = outcome else { return nil }
        return stored
    }
}
