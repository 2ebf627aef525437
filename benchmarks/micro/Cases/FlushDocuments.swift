internal import Bytes
internal import Persistence
internal import Vocabulary

/// The documents of the flush comparison and their changes, the same for both layouts.
///
/// - A lane's state belongs to the thread that writes the lane.
final class FlushDocuments: @unchecked Sendable {  // tidy:allow each lane is one thread's
    /// Changes in one commit: the flusher's maximum.
    static let batchMax = Limits.commitChangesMax
    static let vBuckets = 1_024
    static let valueBytes = 1_024

    /// A changed document: its number, and the index of its new value in the pool.
    struct Change {
        let number: Int
        let vBucket: UInt16
        /// The seqnos of the new version and of the replaced one (0 if there is none).
        let seqno: UInt64
        let before: UInt64
        let value: Int
    }

    let count: Int
    let values: [[UInt8]]
    private let vBucketOf: [UInt16]
    /// The current seqno of each document.
    private let seqnos: UnsafeMutablePointer<UInt64>
    private let high: UnsafeMutablePointer<UInt64>

    init(count: Int) {
        self.count = count
        var samples = Samples(seed: 9)
        values = (0..<4_096).map { _ in samples.json(FlushDocuments.valueBytes) }
        vBucketOf = (0..<count).map { number in
            VBucketID(ofKey: Samples.key(number), count: FlushDocuments.vBuckets).number
        }
        seqnos = .allocate(capacity: count)
        seqnos.initialize(repeating: 0, count: count)
        high = .allocate(capacity: FlushDocuments.vBuckets)
        high.initialize(repeating: 0, count: FlushDocuments.vBuckets)
    }

    deinit {
        seqnos.deallocate()
        high.deallocate()
    }

    func seqno(_ number: Int) -> UInt64 { seqnos[number] }

    /// The compressed size of single documents under LZ4, as a share of their raw size.
    var compressedShare: Double {
        let writer = ByteWriter()
        for value in values.prefix(512) {
            value.withUnsafeBytes { bytes in
                _ = LZ4.compress(ByteView(bytes), to: writer)
            }
        }
        return Double(writer.count) / Double(512 * FlushDocuments.valueBytes)
    }

    private func numbers(lane: Int, lanes: Int) -> [Int] {
        (0..<count).filter { Int(vBucketOf[$0]) % lanes == lane }
    }

    /// The first version of each of the lane's documents, in commits.
    ///
    /// Changes are drawn when they are committed, because they increase a vBucket's high seqno.
    func inserts(lane: Int, lanes: Int) -> [() -> [Change]] {
        let mine = numbers(lane: lane, lanes: lanes)
        return stride(from: 0, to: mine.count, by: FlushDocuments.batchMax).map { start in
            { [self] in
                change(Array(mine[start..<min(start + FlushDocuments.batchMax, mine.count)]))
            }
        }
    }

    /// As many changes as the lane has documents, each of one drawn at random, in commits; a
    /// document drawn twice for a commit is written once, as the flusher does it.
    func overwrites(lane: Int, lanes: Int, pass: Int) -> [() -> [Change]] {
        let mine = numbers(lane: lane, lanes: lanes)
        return stride(from: 0, to: mine.count, by: FlushDocuments.batchMax).map { start in
            let size = min(FlushDocuments.batchMax, mine.count - start)
            return { [self] in
                var random = SeededRandom(seed: UInt64(pass << 32 | lane << 24 | start) + 1)
                var drawn: Set<Int> = []
                while drawn.count < min(size, mine.count / 2 + 1) {
                    drawn.insert(mine[Int(random.next() % UInt64(mine.count))])
                }
                return change(drawn.sorted())
            }
        }
    }

    /// The next version of each of the documents, sorted by vBucket and seqno.
    private func change(_ numbers: [Int]) -> [Change] {
        numbers.map { number in
            let vBucket = Int(vBucketOf[number])
            high[vBucket] += 1
            let before = seqnos[number]
            seqnos[number] = high[vBucket]
            return Change(
                number: number,
                vBucket: vBucketOf[number],
                seqno: high[vBucket],
                before: before,
                value: (number &* 31 &+ Int(high[vBucket]) &* 7) & 4_095
            )
        }
        .sorted { ($0.vBucket, $0.seqno) < ($1.vBucket, $1.seqno) }
    }

    /// Fills a batch as the flusher does.
    func append(_ changes: [Change], to batch: CommitBatch) {
        var current: UInt16?
        for change in changes {
            if change.vBucket != current {
                current = change.vBucket
                batch.begin(record(change.vBucket))
            }
            var meta = DocumentMeta(seqno: Seqno(change.seqno), cas: CAS(casOf(change)))
            meta.datatype = .json
            Samples.key(change.number).withUnsafeBytes { key in
                values[change.value].withUnsafeBytes { value in
                    batch.append(meta, key: ByteView(key), value: ByteView(value))
                }
            }
            if change.before > 0 { batch.markSuperseded(Seqno(change.before)) }
        }
    }

    /// A CAS as the product makes them: increasing nanoseconds since 1970.
    func casOf(_ change: Change) -> UInt64 {
        1_795_000_000_000_000_000 + change.seqno &* 1_000_003 + UInt64(change.number) &* 977
    }

    private func record(_ vBucket: UInt16) -> VBucketRecord {
        var record = VBucketRecord(
            id: VBucketID(vBucket),
            state: .active,
            failoverLog: FailoverLog(first: VBucketUUID(UInt64(vBucket) + 1))
        )
        record.highSeqno = Seqno(high[Int(vBucket)])
        record.snapshotStart = record.highSeqno
        record.snapshotEnd = record.highSeqno
        return record
    }
}
