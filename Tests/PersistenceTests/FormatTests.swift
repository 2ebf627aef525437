import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

/// Files of another version of Divan are refused with what to do, and not changed.
@Suite struct FormatTests {
    /// A file that was closed, how to open it, and what in it has the format.
    private struct Store {
        let name: String
        let path: String
        let open: () throws -> Void
    }

    private let bucket = TemporaryBucket()
    private let index = TemporaryIndex()
    private let control = ControlDirectory()

    private func stores() throws -> [Store] {
        let batch = CommitBatch()
        batch.begin(record(0, high: 0))
        let store = try bucket.open()
        try store.lanes[0].commit(batch)
        try store.closeCleanly()
        try index.open().close()
        try control.open().close()
        return [
            Store(name: "lane", path: bucket.lanePath(0)) { _ = try bucket.open() },
            Store(name: "dump", path: bucket.lanePath(0)) {
                try Dump(disk: FileDisk()).documents(
                    of: bucket.directory,
                    damage: { _ in }
                ) { _, _, _, _ in true }
            },
            Store(name: "index", path: index.path) { _ = try index.open() },
            Store(name: "control", path: control.path) { _ = try control.open() },
        ]
    }

    /// The identifications in which the versions before these formats wrote their files.
    @Test(arguments: [0x4449_564e, 0x4449_5643, 0x4449_5649])
    func fileOfAnotherVersionIsRefusedWithTheCure(_ application: Int) throws {
        for store in try stores() {
            let connection = try SQLiteConnection(path: store.path, mode: .write, vfs: nil)
            try connection.execute("PRAGMA application_id = \(application)")
            let before = try Data(contentsOf: URL(filePath: store.path))
            let refusal = #expect(throws: StorageError.self, "\(store.name)") { try store.open() }
            #expect(refusal?.code == .foreign)
            #expect(refusal?.description.contains("of this version of Divan") == true)
            #expect(refusal?.description.hasSuffix(Release.formatCure) == true)
            #expect(try Data(contentsOf: URL(filePath: store.path)) == before, "\(store.name)")
        }
    }

    @Test(arguments: [0, 2, 3, 9])
    func fileOfAnotherFormatIsRefusedWithBothNumbers(_ format: Int) throws {
        for store in try stores() {
            let connection = try SQLiteConnection(path: store.path, mode: .write, vfs: nil)
            try connection.execute("PRAGMA user_version = \(format)")
            let refusal = #expect(throws: StorageError.self, "\(store.name)") { try store.open() }
            #expect(refusal?.code == .otherFormat)
            #expect(
                refusal?.description.contains("(format \(format), this program reads 1)") == true
            )
            #expect(refusal?.description.hasSuffix(Release.formatCure) == true)
        }
    }

    @Test func fencesAndPreparesAreReadBackAsCommitted() throws {
        let store = try bucket.open()
        var log = FailoverLog(first: VBucketUUID(0xfeed), fence: 3)
        log.begin(VBucketUUID(0xbeef), at: Seqno(0), fence: .max)
        var record = VBucketRecord(id: VBucketID(0), state: .replica, failoverLog: log)
        record.fence = 1 << 63
        record.isIntact = true
        record.highSeqno = Seqno(10)
        let batch = CommitBatch()
        batch.begin(record)
        let meta = DocumentMeta(seqno: Seqno(10), cas: CAS(.max), revision: .max)
        withView([1]) { key in
            batch.append(prepare: meta, level: .majority, key: key, value: key)
        }
        try store.lanes[0].commit(batch)
        try store.closeCleanly()
        let again = try bucket.open()
        let found = try again.records().records
        #expect(found == [record])
        #expect(found.first?.failoverLog.entries.map(\.fence) == [.max, 3])
        let prepare = StoredPrepare(meta: meta, level: .majority, key: [1], value: [1])
        #expect(try again.lanes[0].prepares(of: VBucketID(0)) == [prepare])
        #expect(try Dump(disk: FileDisk()).prepareCount(of: bucket.directory) == 1)
        try again.lanes[0].drop(VBucketID(0))
        #expect(try again.lanes[0].prepares(of: VBucketID(0)).isEmpty)
    }
}
