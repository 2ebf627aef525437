import Bytes
import Engine
import Testing
import Vocabulary

/// Where the history of a copy that was promoted begins.
@Suite struct BranchTests {
    private func replica() throws -> (Bucket, VBucket) {
        var settings = BucketSettings(name: "bucket", uuid: "0", quota: 1 << 30)
        settings.type = .ephemeral
        settings.evictionPolicy = .noEviction
        settings.vBuckets = 1
        let reclaimer = Reclaimer(quiescence: Quiescence(reactorCount: 1))
        let bucket = Bucket(settings, hash: KeyHash(seed: 1), reclaimer: reclaimer) {
            VBucketUUID(7)
        }
        return (bucket, try #require(bucket[0]))
    }

    /// A branch at the high seqno would claim versions that the copy lacks.
    ///
    /// They were overwritten inside the snapshot, and other copies may have them. So the branch
    /// begins where the copy is complete.
    @Test func promotionInsideSnapshotBranchesAtSnapshotStart() throws {
        let (bucket, vBucket) = try replica()
        defer { withExtendedLifetime(bucket) {} }
        let (steps, high, branch) = vBucket.withCore { core in
            core.become(.replica)
            let steps = [
                core.beginSnapshot(SnapshotRange(start: .zero, end: Seqno(10))),
                core.advance(to: Seqno(10)),
                core.beginSnapshot(SnapshotRange(start: Seqno(10), end: Seqno(20))),
                core.advance(to: Seqno(15)),
            ]
            let high = core.highSeqno
            core.beginServing(VBucketUUID(9), fence: 3, isConfirmed: false)
            return (steps, high, core.failoverLog.current)
        }
        #expect(steps == [true, true, true, true])
        #expect(high == Seqno(15))
        #expect(branch == FailoverLog.Entry(uuid: VBucketUUID(9), seqno: Seqno(10), fence: 3))
    }

    /// A copy knows what was purged of a whole snapshot when it has none of it.
    ///
    /// Promoted with half of it, it lacks nothing of the other one: a reader of its later
    /// writes need not restart from zero.
    @Test func purgeSeqnoOfPromotedCopyIsAtMostItsHighSeqno() throws {
        let (bucket, vBucket) = try replica()
        defer { withExtendedLifetime(bucket) {} }
        let (told, written, served) = vBucket.withCore { core in
            core.become(.replica)
            _ = core.beginSnapshot(SnapshotRange(start: .zero, end: Seqno(20)))
            core.notePurge(through: Seqno(15), maxRevision: 3)
            _ = core.advance(to: Seqno(10))
            let told = core.purgeSeqno
            let written = core.record(through: Seqno(5), casHorizon: 0).purgeSeqno
            core.beginServing(VBucketUUID(9), fence: 3, isConfirmed: false)
            return (told, written, core.purgeSeqno)
        }
        #expect(told == Seqno(15))
        #expect(written == Seqno(5))
        #expect(served == Seqno(10))
    }
}
