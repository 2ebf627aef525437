internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
package import Vocabulary

/// Lists of keys, for the document browser.
extension DocumentService {
    /// The keys to list, in the order of their bytes.
    package struct KeyRange: Sendable {
        package var from: [UInt8]?
        package var to: [UInt8]?
        package var inclusiveEnd = true
        package var skip = 0
        package var limit = 10

        package init() {}

        func contains(_ key: ByteView) -> Bool {
            if let from, from.withUnsafeBytes({ key.precedes(ByteView($0)) }) { return false }
            guard let to else { return true }
            return to.withUnsafeBytes { buffer in
                let end = ByteView(buffer)
                return key.precedes(end) || (inclusiveEnd && key.equals(end))
            }
        }
    }

    /// Lists the keys of live documents, and calls `done` from any lane.
    ///
    /// Reads every key of the bucket, from disk for ejected documents: meant for an interactive
    /// page.
    package func list(
        _ range: KeyRange,
        inBucket name: String,
        _ done: @escaping @Sendable (KeyListing) -> Void
    ) {
        lanes.readers[0].lane.post { [self] in
            guard let bucket = bucket(named: name) else { return done(.noBucket) }
            let seconds = UInt32(
                truncatingIfNeeded: environment.time.wallNanoseconds() / 1_000_000_000
            )
            var found = SmallestKeys(count: range.skip + range.limit)
            do throws(StorageError) {
                for vBucket in bucket.engine.all where vBucket.withCore({ $0.state == .active }) {
                    collect(&found, range, of: vBucket, at: seconds)
                    try collectStubs(&found, range, of: vBucket, bucket: bucket, at: seconds)
                }
            } catch {
                environment.trace.error("listing", error.description)
                return done(.failed(error.description))
            }
            done(.keys(Array(found.sorted.dropFirst(range.skip))))
        }
    }

    private func collect(
        _ found: inout SmallestKeys,
        _ range: KeyRange,
        of vBucket: VBucket,
        at seconds: UInt32
    ) {
        vBucket.forEachSlice { core, from in
            core.table.visit(from: from, groupsMax: 64) { item in
                let isDue = item.expiry != 0 && item.expiry <= seconds
                if !item.isDeleted, !isDue, range.contains(item.key) { found.add(item.key) }
            }
        }
    }

    /// Adds keys from disk of which memory has only stubs.
    ///
    /// A document that was restored meanwhile is found twice, which does no harm.
    private func collectStubs(
        _ found: inout SmallestKeys,
        _ range: KeyRange,
        of vBucket: VBucket,
        bucket: OpenBucket,
        at seconds: UInt32
    ) throws(StorageError) {
        let (id, hasStubs) = vBucket.withCore { ($0.id, $0.table.stubCount > 0) }
        guard hasStubs, let disk = bucket.disk else { return }
        var place: Seqno? = .zero
        while let after = place {
            place = try disk.store.lane(of: id).scanMetadata(id, after: after, blocksMax: 64) {
                cursor in
                while cursor.next() {
                    let (meta, key) = (cursor.meta, cursor.key)
                    let isDue = meta.expiry != 0 && meta.expiry <= seconds
                    guard !meta.isDeleted, !isDue, range.contains(key) else { continue }
                    let current = vBucket.withCore { core in
                        core.currentSeqno(of: key, hash: hash(key), asked: meta.seqno)
                    }
                    if current == meta.seqno { found.add(key) }
                }
                return true
            }
        }
    }
}

/// The smallest of many keys, in bounded memory.
private struct SmallestKeys {
    let count: Int
    private var keys: Set<[UInt8]> = []
    /// Larger keys are not among the smallest.
    private var bound: [UInt8]?

    init(count: Int) {
        self.count = count
    }

    mutating func add(_ key: ByteView) {
        if let bound, !bound.withUnsafeBytes({ key.precedes(ByteView($0)) }) { return }
        keys.insert(key.bytes)
        guard keys.count > 2 * count + 64 else { return }
        let smallest = sorted
        keys = Set(smallest)
        bound = smallest.last
    }

    var sorted: [[UInt8]] {
        Array(keys.sorted { $0.lexicographicallyPrecedes($1) }.prefix(count))
    }
}
