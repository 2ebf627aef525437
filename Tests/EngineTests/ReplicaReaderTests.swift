import Bytes
import Engine
import Testing
import Vocabulary

/// Readers of a replica while it receives snapshots in parts.
///
/// The active copy is a list of events; what is sent of a snapshot is what its change order would
/// have: the newest change of each key, prepares that are outstanding at the end, and aborts.
@Suite struct ReplicaReaderTests {
    @Test(
        "a reader of a replica has what the active copy had at the end of a snapshot",
        arguments: 1...60 as ClosedRange<UInt64>
    )
    func readersStopAtSnapshotEnds(seed: UInt64) throws {
        let type: BucketType = seed.isMultiple(of: 3) ? .ephemeral : .persistent
        let walk = try ReplicaWalk(type, seed: seed, ejects: seed.isMultiple(of: 2))
        for step in 0..<2_500 {
            walk.step()
            guard walk.check(step) else { return }
        }
        try walk.finish()
        #expect(walk.besides > 20, "readers progressed while a snapshot was open")
        if walk.isPersistent, seed.isMultiple(of: 2) { #expect(walk.scans > 5) }
    }

    @Test func readerOpenedBeforeSnapshotReadsUpToItsStart() throws {
        let replica = try Replica()
        let cursor = try #require(replica.open(after: 0))
        replica.begin(0, 2)
        replica.apply(1, key: 1)
        replica.apply(2, key: 2)
        replica.begin(2, 4)
        replica.apply(3, key: 1)
        #expect(replica.snapshot(cursor) == .range(start: .zero, end: Seqno(2)))
        #expect(replica.read(cursor) == [1, 2], "the replaced version of key 1 too")
        #expect(replica.snapshot(cursor) == .drained)
        replica.apply(4, key: 3)
        #expect(replica.vBucket.withCore { $0.takeOwedStreamWake() }, "the snapshot is whole")
        #expect(replica.snapshot(cursor) == .range(start: Seqno(2), end: Seqno(4)))
        #expect(replica.read(cursor) == [3, 4])
    }

    @Test func readerOpenedInsideSnapshotIsServedAtItsEnd() throws {
        let replica = try Replica()
        replica.begin(0, 2)
        replica.apply(1, key: 1)
        replica.apply(2, key: 2)
        replica.begin(2, 3)
        // Memory has lost what was there at 2, as nothing read then.
        let cursor = try #require(replica.open(after: 0))
        #expect(replica.snapshot(cursor) == .drained)
        replica.apply(3, key: 1)
        replica.begin(3, 5)
        replica.apply(4, key: 2)
        #expect(replica.snapshot(cursor) == .range(start: .zero, end: Seqno(3)))
        #expect(replica.read(cursor) == [2, 3])
        replica.vBucket.withCore { $0.closeCursor(cursor) }
    }

    @Test func commitThatReaderWaitsForEndsAtSnapshotBoundary() throws {
        let replica = try Replica(.persistent)
        replica.begin(0, 2)
        replica.apply(1, key: 1)
        replica.apply(2, key: 2)
        replica.flush()
        replica.eject()
        replica.begin(2, 3)
        let source = replica.vBucket.withCore { $0.openChanges(after: .zero) }
        #expect(source == .disk(through: Seqno(2), pin: nil))
        // A commit inside the snapshot is no state for a reader.
        replica.begin(2, 4)
        replica.apply(3, key: 3)
        replica.flush()
        #expect(replica.vBucket.withCore { !$0.isReadableOnDisk(through: Seqno(3)) })
        let cursor = try #require(replica.open(after: 0))
        replica.apply(4, key: 4)
        replica.begin(4, 6)
        replica.apply(5, key: 1)
        #expect(replica.flush() == 4, "the commit that comes now ends where the snapshot did")
        #expect(replica.vBucket.withCore { $0.isReadableOnDisk(through: Seqno(4)) })
        #expect(replica.snapshot(cursor) == .dropped, "the reader finds the disk")
        let found = replica.vBucket.withCore { $0.openChanges(after: .zero) }
        #expect(found == .disk(through: Seqno(4), pin: nil))
        #expect(
            replica.record.map { [$0.highSeqno, $0.snapshotStart, $0.snapshotEnd] }
                == [Seqno(4), Seqno(4), Seqno(6)]
        )
    }

    /// A commit claims its record's fence for all its changes.
    @Test func preparedDrainIsDiscardedWhenTheFenceChanges() throws {
        let replica = try Replica(.persistent)
        replica.begin(0, 4)
        replica.apply(1, key: 1)
        replica.apply(2, key: 2)
        replica.flush()
        replica.eject()
        replica.apply(3, key: 1)
        replica.apply(4, key: 2)
        let source = replica.vBucket.withCore { $0.openChanges(after: .zero, residentMax: 0) }
        #expect(source == .unpersisted(Seqno(4)), "the next commit is to end here")
        replica.begin(4, 6)
        replica.apply(5, key: 1)
        replica.vBucket.withCore { core in
            var ownership = core.ownership
            ownership.fence = 7
            core.become(.replica, ownership)
        }
        #expect(replica.flush() == 5, "the drain has everything that the record speaks for")
        #expect(replica.record?.fence == 7)
        replica.apply(6, key: 2)
        #expect(replica.flush() == 6)
        #expect(replica.vBucket.withCore { $0.isReadableOnDisk(through: Seqno(6)) })
    }

    @Test func promotionInsideSnapshotServesWaitingReader() throws {
        let replica = try Replica()
        replica.begin(0, 1)
        replica.apply(1, key: 1)
        replica.begin(1, 3)
        replica.apply(2, key: 2)
        let cursor = try #require(replica.open(after: 0))
        #expect(replica.snapshot(cursor) == .drained)
        replica.vBucket.withCore { $0.promote(VBucketUUID(9)) }
        #expect(replica.snapshot(cursor) == .range(start: .zero, end: Seqno(2)))
    }

    @Test func closedReaderIsNotServed() throws {
        let replica = try Replica()
        replica.begin(0, 1)
        replica.apply(1, key: 1)
        replica.begin(1, 2)
        let cursor = try #require(replica.open(after: 0))
        replica.vBucket.withCore { $0.closeCursor(cursor) }
        replica.apply(2, key: 1)
        #expect(replica.snapshot(cursor) == .dropped)
        #expect(replica.vBucket.withCore { $0.dropCursors() } == 0)
    }
}

/// A replica that a test feeds change by change.
final class Replica {
    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket
    var record: VBucketRecord?

    init(_ type: BucketType = .ephemeral) throws {
        bucket = stage.bucket(type)
        vBucket = try #require(bucket[2])
        vBucket.withCore { $0.become(.replica) }
    }

    func begin(_ start: UInt64, _ end: UInt64) {
        let range = SnapshotRange(start: Seqno(start), end: Seqno(end))
        #expect(vBucket.withCore { $0.beginSnapshot(range) })
    }

    func apply(_ seqno: UInt64, key number: Int, isDeleted: Bool = false) {
        var meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno * 10))
        meta.isDeleted = isDeleted
        let outcome = with(number) { core, key, hash in
            viewing(isDeleted ? [] : [UInt8](repeating: UInt8(seqno & 0xff), count: 200)) {
                core.apply(meta, key: key, hash: hash, value: $0, stage.turn)
            }
        }
        guard case .applied = outcome else {
            Issue.record("seqno \(seqno) was not applied")
            return
        }
    }

    func with<Result>(
        _ number: Int,
        _ body: (inout VBucketCore, ByteView, UInt64) -> Result
    ) -> Result {
        let bytes = key(number)
        let hash = stage.hash(of: bytes)
        return viewing(bytes) { key in vBucket.withCore { body(&$0, key, hash) } }
    }

    func open(after seqno: UInt64) -> CursorID? {
        guard case .memory(let cursor) = vBucket.withCore({ $0.openChanges(after: Seqno(seqno)) })
        else { return nil }
        return cursor
    }

    func snapshot(_ cursor: CursorID) -> CursorSnapshot {
        vBucket.withCore { $0.snapshot(cursor) }
    }

    func read(_ cursor: CursorID) -> [UInt64] {
        var seen: [UInt64] = []
        _ = vBucket.withCore { $0.read(cursor, bytesMax: .max) { seen.append($0.seqno.value) } }
        return seen
    }

    /// Commits; returns where the commit ends.
    @discardableResult
    func flush() -> UInt64 {
        vBucket.withCore { core in
            let drain = core.drain()
            record = core.record(through: drain.boundary, casHorizon: 0)
            core.persisted(through: drain.boundary)
            return drain.boundary.value
        }
    }

    func eject() {
        vBucket.withCore { core in
            _ = core.ejectSlice(from: 0, groupsMax: .max / 2, threshold: .max, stage.turn)
        }
    }
}
