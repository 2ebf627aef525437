import Bytes
import Persistence
import Testing
import Vocabulary

/// Tombstones whose value has extended attributes, on disk.
///
/// `ModelTests` and `ScanTests` write such tombstones at random.
@Suite struct TombstoneValueTests {
    private static let key = Array("key".utf8)

    private static func tombstone(seqno: UInt64, _ value: [UInt8]) -> TestDocument {
        let meta = DocumentMeta(
            seqno: Seqno(seqno),
            cas: CAS(seqno),
            expiry: 1_700_000_000,
            datatype: .xattr,
            isDeleted: true
        )
        return TestDocument(meta: meta, key: key, value: value)
    }

    @Test func largestStoredValueIsReadBackAfterCompactionAndRestart() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        let lane = store.lanes[0]
        var value = [UInt8](repeating: 7, count: Limits.storedValueBytesMax)
        value[value.count - 1] = 8
        let tombstone = Self.tombstone(seqno: 2, value)
        let batch = CommitBatch()
        batch.begin(record(2, high: 1))
        batch.append(Self.tombstone(seqno: 1, [1, 2, 3]))
        try lane.commit(batch)
        batch.reset()
        batch.begin(record(2, high: 2))
        batch.append(tombstone)
        batch.markSuperseded(Seqno(1))
        try lane.commit(batch)
        _ = try lane.compactStep(bytesMax: 64 << 20) { _, _, _ in Seqno(2) }
        #expect(try lane.document(2, 2) == tombstone)
        try store.closeCleanly()
        let again = try bucket.open().lanes[0]
        #expect(try again.value(2, 2) == value)
    }

    @Test func preparedDeletionIsReadBackWithItsValue() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        let document = Self.tombstone(seqno: 1, [0, 0, 0, 0, 9])
        let batch = CommitBatch()
        batch.begin(record(2, high: 1))
        withView(document.key) { key in
            withView(document.value) { value in
                batch.append(prepare: document.meta, level: .majority, key: key, value: value)
            }
        }
        try store.lanes[0].commit(batch)
        try store.closeCleanly()
        let prepare = StoredPrepare(
            meta: document.meta,
            level: .majority,
            key: document.key,
            value: document.value
        )
        #expect(try bucket.open().lanes[0].prepares(of: VBucketID(2)) == [prepare])
    }
}
