package import Bytes
package import Vocabulary

/// Decides what becomes of mapped documents while the trees of an index are empty: they are collected
/// in sorted runs, which a `LoadMerge` makes the trees of at the end.
///
/// To insert documents into trees as they come rewrites every leaf again and again, because neither
/// keys nor ids come in order. A run in memory is lost by a crash, and so it is stored after some
/// time, or if the memory is needed, together with the positions that it ends with.
///
/// - Runs have an order: of two versions of a document, the one in the newer run counts.
/// - Only the oldest run in memory is stored, so that stored positions cover exactly the stored runs.
/// - What was read of a feed that is closed is discarded unless it is stored.
package final class BulkLoad {
    /// Sizes and times; tests may set others.
    package struct Limits: Hashable, Sendable {
        /// A run is sorted at this size: about 10 ms of work.
        package var runBytesMax = 2 << 20
        /// Bytes of runs in memory.
        package var memoryBytesMax = 32 << 20
        /// A document is stored after this time, so that a crash costs no more than that.
        package var storeAfterNanoseconds: UInt64 = 5_000_000_000
        /// The load ends if nothing was added for this time although vBuckets are incomplete.
        package var idleNanoseconds: UInt64 = 500_000_000
        /// The same before anything was added: the copies may be loading.
        package var firstIdleNanoseconds: UInt64 = 5_000_000_000
        /// Stored runs: a merge has a buffer of 64 KiB for each tree of each.
        package var storedRunsMax: UInt32 = 256
        /// Bytes of keys and values that half a step of the merge merges.
        package var mergedBytesMax = 512 << 10

        package init() {}
    }

    private let limits: Limits
    private let collector = RunCollector()
    /// Sorted and not stored, the oldest first.
    private var sorted: [SortedRun] = []
    /// The stored runs have the numbers below this one.
    package private(set) var storedRuns: UInt32
    /// The positions that the stored runs end with.
    package private(set) var storedPositions: [VBucketID: IndexPosition]
    /// The positions of everything that was added.
    package private(set) var positions: [VBucketID: IndexPosition]
    private var current: (vBucket: VBucketID, id: [UInt8])?
    private var activeAt: UInt64
    private var hasAdded = false

    /// A load that has `storedRuns` runs, which end with `positions`.
    package init(
        storedRuns: UInt32 = 0,
        positions: [VBucketID: IndexPosition] = [:],
        now: UInt64,
        limits: Limits = Limits()
    ) {
        self.limits = limits
        self.storedRuns = storedRuns
        storedPositions = positions
        self.positions = positions
        activeAt = now
    }

    // MARK: Adding

    /// Begins a document; its rows follow, then `end`.
    package func begin(_ vBucket: VBucketID, id: ByteView, now: UInt64) {
        precondition(current == nil, "documents are added one after the other")
        current = (vBucket, id.bytes)
        collector.begin(now: now)
    }

    /// Adds a row that the document emits.
    ///
    /// - Parameters:
    ///   - sortKey: The encoded key.
    ///   - value: The value's JSON text.
    package func add(sortKey: ByteView, value: ByteView) {
        collector.add(sortKey: sortKey, value: value)
    }

    /// Discards the rows that were added for the document: it has none.
    package func discardRows() { collector.discardRows() }

    /// Ends the document.
    package func end() {
        guard let (vBucket, id) = current else {
            preconditionFailure("a document begins before it ends")
        }
        current = nil
        id.withUnsafeBytes { collector.end(vBucket, id: ByteView($0)) }
    }

    /// The load has all changes of the vBucket through `position`.
    package func move(_ vBucket: VBucketID, to position: IndexPosition, now: UInt64) {
        collector.move(vBucket, to: position, now: now)
        positions[vBucket] = position
    }

    /// Everything of a batch was added; sorts a run if it is large enough.
    ///
    /// - Returns: Whether a run was sorted.
    @discardableResult
    package func endBatch(now: UInt64) -> Bool {
        activeAt = now
        hasAdded = true
        guard collector.byteCount >= limits.runBytesMax else { return false }
        sort()
        return true
    }

    private func sort() {
        guard !collector.isEmpty else { return }
        sorted.append(collector.removeRun())
    }

    /// Discards what is not stored of a vBucket whose feed was closed.
    package func discard(_ vBucket: VBucketID) {
        positions[vBucket] = storedPositions[vBucket]
        // Documents that are added after this belong to another feed.
        sort()
        for run in sorted { run.discard(vBucket) }
        sorted.removeAll { $0.isEmpty }
    }

    // MARK: State

    /// Whether there is nothing to make trees of.
    package var isEmpty: Bool { storedRuns == 0 && sorted.isEmpty && collector.isEmpty }

    private var memoryBytes: Int { sorted.reduce(collector.byteCount) { $0 + $1.byteCount } }

    /// Whether more documents may be read.
    package var hasRoom: Bool { memoryBytes < 2 * limits.memoryBytesMax }

    /// Whether the load must end, because a merge of more runs would need too much memory.
    package var isFull: Bool { storedRuns >= limits.storedRunsMax }

    /// When the load ends because nothing more comes.
    package var idleAt: UInt64 {
        activeAt + (hasAdded ? limits.idleNanoseconds : limits.firstIdleNanoseconds)
    }

    // MARK: Storing

    /// The run that is to be stored now, the oldest; nil if none is.
    package func runToStore(now: UInt64) -> SortedRun? {
        if let beganAt = collector.beganAt, isOld(beganAt, now) { sort() }
        guard let first = sorted.first,
            memoryBytes > limits.memoryBytesMax || isOld(first.beganAt, now)
        else { return nil }
        return first
    }

    /// When a run is to be stored at the latest; nil if there is none.
    package var storeAt: UInt64? {
        (sorted.first?.beganAt ?? collector.beganAt).map { $0 + limits.storeAfterNanoseconds }
    }

    private func isOld(_ beganAt: UInt64, _ now: UInt64) -> Bool {
        now >= beganAt + limits.storeAfterNanoseconds
    }

    /// The positions that the stored runs end with once `run` is one of them.
    package func positions(after run: SortedRun) -> [VBucketID: IndexPosition] {
        storedPositions.merging(run.positions) { _, newer in newer }
    }

    /// The oldest run in memory was stored under the number `storedRuns`.
    package func stored() {
        let run = sorted.removeFirst()
        storedPositions = positions(after: run)
        storedRuns += 1
    }

    /// Ends the load: the merge of all runs.
    package func merge(_ numbers: TreeNumbers, format: NodeFormat = .standard) -> LoadMerge {
        sort()
        return LoadMerge(storedRuns: storedRuns, sorted, numbers, format: format)
    }
}
