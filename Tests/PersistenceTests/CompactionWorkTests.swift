import Bytes
import Foundation
import Persistence
import Testing
import Vocabulary

/// The work that a lane's compaction has left.
@Suite struct CompactionWorkTests {
    @Test func documentsToCompactAreThoseThatStepsRewriteOrRemove() throws {
        let bucket = TemporaryBucket(lanes: 1, vBuckets: 64)
        let lane = try bucket.open().lanes[0]
        let batch = CommitBatch()
        for vBucket: UInt16 in [0, 1, 2] {
            batch.begin(record(vBucket, high: 200))
            for seqno in 1...200 as ClosedRange<UInt64> {
                let meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno))
                let value = [UInt8](repeating: UInt8(seqno), count: 1_000)
                batch.append(TestDocument(meta: meta, key: [UInt8(seqno)], value: value))
            }
        }
        try lane.commit(batch)
        #expect(lane.documentsToCompact() == 0)
        // Of vBucket 2 no document is dead.
        for seqno in 1...200 as ClosedRange<UInt64> {
            if seqno % 10 != 0 { lane.markDead(VBucketID(0), Seqno(seqno)) }
            if seqno % 5 == 0 { lane.markDead(VBucketID(1), Seqno(seqno)) }
        }
        var left = 400
        while true {
            #expect(lane.documentsToCompact() == left)
            let step = try lane.compactStep(bytesMax: 1 << 20) { _, _, _ in Seqno(1_000) }
            if step.rewritten + step.dropped == 0 { break }
            left -= step.rewritten + step.dropped
        }
        #expect(left == 0)
    }
}
