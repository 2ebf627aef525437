import Bytes
import Foundation
import Persistence
import Testing
import Vocabulary

/// Migration of files with schema 1 (no fences) and schema 2 (no prepares).
@Suite struct MigrationTests {
    private static let uuid = VBucketUUID(0xfeed)

    private func stored(_ bucket: TemporaryBucket) throws -> [VBucketRecord] {
        try bucket.open().records().records
    }

    @Test func fencesAreReadBackAsCommitted() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        var log = FailoverLog(first: MigrationTests.uuid, fence: 3)
        log.begin(VBucketUUID(0xbeef), at: Seqno(0), fence: .max)
        var record = VBucketRecord(id: VBucketID(0), state: .replica, failoverLog: log)
        record.fence = 1 << 63
        record.isIntact = true
        let batch = CommitBatch()
        batch.begin(record)
        try store.lanes[0].commit(batch)
        try store.closeCleanly()
        let found = try stored(bucket)
        #expect(found == [record])
        #expect(found.first?.failoverLog.entries.map(\.fence) == [.max, 3])
    }

    @Test func fileOfSchema1IsMigrated() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        let log = FailoverLog(first: MigrationTests.uuid, fence: 3)
        var record = VBucketRecord(id: VBucketID(0), state: .active, failoverLog: log)
        record.fence = 3
        let batch = CommitBatch()
        batch.begin(record)
        try store.lanes[0].commit(batch)
        try store.closeCleanly()
        try Connection(path: bucket.lanePath(0), mode: .write, vfs: nil).execute(
            """
            ALTER TABLE vbucket DROP COLUMN fence;
            ALTER TABLE vbucket DROP COLUMN intact;
            ALTER TABLE failover DROP COLUMN fence;
            DROP TABLE prepares;
            PRAGMA user_version = 1;
            """
        )
        record.fence = 0
        record.failoverLog = FailoverLog(first: MigrationTests.uuid)
        #expect(try stored(bucket) == [record])
        // The migrated file accepts commits.
        record.fence = 9
        let again = try bucket.open()
        batch.reset()
        batch.begin(record)
        try again.lanes[0].commit(batch)
        try again.closeCleanly()
        #expect(try stored(bucket) == [record])
    }

    @Test func fileOfSchema2IsMigrated() throws {
        let bucket = TemporaryBucket()
        let store = try bucket.open()
        let batch = CommitBatch()
        batch.begin(record(0, high: 9))
        try store.lanes[0].commit(batch)
        try store.closeCleanly()
        try Connection(path: bucket.lanePath(0), mode: .write, vfs: nil)
            .execute("DROP TABLE prepares; PRAGMA user_version = 2;")
        // A dump reads the old schema without migrating it.
        #expect(try Dump(disk: FileDisk()).prepareCount(of: bucket.directory) == 0)
        let again = try bucket.open()
        #expect(try again.lanes[0].prepares(of: VBucketID(0)).isEmpty)
        batch.reset()
        batch.begin(record(0, high: 10))
        let meta = DocumentMeta(seqno: Seqno(10), cas: CAS(.max), revision: .max)
        withView([1]) { key in
            batch.append(prepare: meta, level: .majority, key: key, value: key)
        }
        try again.lanes[0].commit(batch)
        let prepare = StoredPrepare(meta: meta, level: .majority, key: [1], value: [1])
        #expect(try again.lanes[0].prepares(of: VBucketID(0)) == [prepare])
        #expect(try Dump(disk: FileDisk()).prepareCount(of: bucket.directory) == 1)
        try again.lanes[0].drop(VBucketID(0))
        #expect(try again.lanes[0].prepares(of: VBucketID(0)).isEmpty)
    }
}
