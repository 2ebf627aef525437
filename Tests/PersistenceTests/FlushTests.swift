import Bytes
import Foundation
import Persistence
import Seams
import TestSupport
import Testing
import Vocabulary

/// A flush that fails at its last step, when the new generation may be on disk.
@Suite struct FlushTests {
    private let bucket = TemporaryBucket()
    private let disk = FaultyDisk()

    private func batch(_ seqno: UInt64) -> CommitBatch {
        let batch = CommitBatch()
        batch.begin(record(2, high: seqno))
        let meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno))
        batch.append(TestDocument(meta: meta, key: [UInt8(seqno)], value: [2]))
        return batch
    }

    private func opened() throws -> BucketStore {
        let store = try BucketStore.open(
            disk: disk,
            directory: bucket.directory,
            name: "bucket",
            uuid: bucket.uuid,
            settings: bucket.settings,
            now: 1_700_000_000
        )
        try store.lanes[0].commit(batch(1))
        return store
    }

    @Test func failedFlushKeepsTheOldGeneration() throws {
        let store = try opened()
        let lane = store.lanes[0]
        disk.failAfterReplacing(1)
        let error = #expect(throws: StorageError.self) { try store.flush() }
        #expect(error?.description.contains("cannot sync") == true)
        #expect(lane.closedBy == nil)
        try lane.commit(batch(2))
        // A change acknowledged after the failure survives the next start.
        let again = try bucket.open()
        #expect(try again.lanes[0].value(2, 1) == [2])
        #expect(try again.lanes[0].value(2, 2) == [2])
        try again.flush()
        #expect(try again.records().records.isEmpty)
        #expect(try bucket.open().records().records.isEmpty)
    }

    /// It is unknown which generation the next start uses, so neither may acknowledge changes.
    @Test func lanesAreClosedIfFailedFlushCannotBeUndone() throws {
        let store = try opened()
        disk.failAfterReplacing(2)
        #expect(throws: StorageError.self) { try store.flush() }
        for lane in store.lanes { #expect(lane.closedBy?.code == .quarantined) }
        let error = #expect(throws: StorageError.self) { try store.lanes[0].commit(batch(2)) }
        #expect(error?.code == .quarantined)
        #expect(error?.description.contains("half flushed") == true)
    }

    @Test func repeatedFlushAfterFailureSucceeds() throws {
        let store = try opened()
        disk.failAfterReplacing(1)
        #expect(throws: StorageError.self) { try store.flush() }
        try store.flush()
        #expect(try store.lanes[0].value(2, 1) == nil)
        try store.lanes[0].commit(batch(1))
        try store.removeLeftovers()
        let again = try bucket.open()
        #expect(try again.lanes[0].value(2, 1) == [2])
        #expect(try again.records().records.map(\.highSeqno) == [Seqno(1)])
    }
}
