package import Bytes
package import Vocabulary

/// What a purge came to, and what the engine's record of the vBucket must not fall behind.
package struct PurgeSummary: Hashable, Sendable {
    /// Keys whose tombstones are gone.
    package var purged = 0
    /// Tombstones up to here may be gone.
    package var purgeSeqno = Seqno.zero
    /// The highest revision of a tombstone that is gone: a new document starts above it.
    package var maxRevision: UInt64 = 0
    /// More is to be purged than one call takes.
    package var isPartial = false

    package init(isPartial: Bool = false) { self.isPartial = isPartial }
}

extension LaneStore {
    /// Forgets the tombstones of a vBucket that are old enough, and every older version of their
    /// keys, in one transaction.
    ///
    /// An older version left behind would raise the dead at the next warmup, so this reads all
    /// metadata of the vBucket. Not to be called before warmup is through, nor of one that it could
    /// not read.
    ///
    /// - Parameters:
    ///   - vBucket: Which one.
    ///   - deletedBefore: Seconds since 1970: tombstones younger than this stay.
    ///   - seqno: Tombstones beyond it stay: an open backfill or a cursor needs them.
    ///   - keysMax: How many keys to forget at most.
    ///   - bytesMax: Bytes of values in the blocks to be rewritten, unless one key needs more.
    ///   - currentSeqno: As for `compactStep`: a tombstone with a successor is not purged but left
    ///     to compaction.
    ///   - willPurge: Told what this comes to before anything is gone; called under the writer's lock.
    ///   - didPurge: Told each forgotten key after the commit, so that the table forgets it as
    ///     well where its seqno still is this one.
    /// - Throws: What could not be read or written; nothing has changed then.
    /// - Returns: What was done.
    package func purge(
        _ vBucket: VBucketID,
        deletedBefore: UInt32,
        through seqno: Seqno,
        keysMax: Int = 20_000,
        bytesMax: Int = 16 << 20,
        currentSeqno: (VBucketID, _ key: ByteView, _ seqno: Seqno) -> Seqno?,
        willPurge: (PurgeSummary) -> Void = { _ in },
        didPurge: (_ key: ByteView, Seqno) -> Void
    ) throws(StorageError) -> PurgeSummary {
        precondition(owns(vBucket), "\(vBucket) is not in lane \(number)")
        guard exists else { return PurgeSummary() }
        var summary = PurgeSummary()
        var doomed: Doomed = [:]
        try write { (writer, lane) throws(StorageError) in
            // A scan may have to read a version that is older than its end and the tombstone: one
            // that stayed without the other would rise from the dead.
            let isScanned = directory.withLock { directory in
                directory.holds.values.contains { $0.vBucket == vBucket.number }
            }
            guard !isScanned else { return }
            let reader = try lane.reader(identity)
            try collect(vBucket, reader, &doomed, &summary, keysMax) { meta, key in
                meta.isDeleted && meta.expiry < deletedBefore && meta.seqno <= seqno
                    && (currentSeqno(vBucket, key, meta.seqno) ?? meta.seqno) == meta.seqno
            }
            guard !doomed.isEmpty else { return }
            var victims = try blocks(of: vBucket, with: doomed, reader)
            while doomed.count > 1, victims.reduce(0, { $0 + Int($1.block.rawBytes) }) > bytesMax {
                doomed.keepOldestHalf()
                summary.isPartial = true
                victims = try blocks(of: vBucket, with: doomed, reader)
            }
            summary.note(doomed)
            willPurge(summary)
            let update = try lane.connection.prepare(
                """
                UPDATE vbucket SET purge_seqno = max(purge_seqno, ?1),
                  max_revision = \(Schema.unsignedMax("max_revision", "?2")) WHERE vb = ?3
                """
            )
            update.bind(1, summary.purgeSeqno.value)
            update.bind(2, summary.maxRevision)
            update.bind(3, vBucket.number)
            _ = try rewrite(
                victims,
                &writer,
                lane,
                alongside: { () throws(StorageError) in try update.run() },
                isDead: { other, cursor, isNoted in
                    (other == vBucket && cursor.isDoomed(by: doomed))
                        || isDead(other, cursor, isNoted, currentSeqno)
                }
            )
            let purged = summary.purgeSeqno.value
            directory.withLock { directory in
                directory[vBucket.number].purged = max(directory[vBucket.number].purged, purged)
            }
        }
        for (key, tombstone) in doomed {
            key.withUnsafeBytes { didPurge(ByteView($0), tombstone.seqno) }
        }
        return summary
    }

    /// Finds the keys whose newest version on disk is a tombstone that may go.
    private func collect(
        _ vBucket: VBucketID,
        _ reader: LaneReader,
        _ doomed: inout Doomed,
        _ summary: inout PurgeSummary,
        _ keysMax: Int,
        mayGo: (DocumentMeta, ByteView) -> Bool
    ) throws(StorageError) {
        try forEachRun(of: vBucket, reader) { (cursor, _) in
            while cursor.next() {
                let meta = cursor.meta
                if mayGo(meta, cursor.key) {
                    let key = cursor.key.bytes
                    if doomed[key] == nil, doomed.count >= keysMax {
                        summary.isPartial = true
                        continue
                    }
                    doomed[key] = Tombstone(seqno: meta.seqno, revision: meta.revision)
                } else if !doomed.isEmpty {
                    // A later version: the tombstone is dead, not due.
                    doomed[cursor.key.bytes] = nil
                }
            }
        }
    }

    private func blocks(
        of vBucket: VBucketID,
        with doomed: Doomed,
        _ reader: LaneReader
    ) throws(StorageError) -> [VictimCandidate] {
        var victims: Set<UInt32> = []
        try forEachRun(of: vBucket, reader) { (cursor, ordinal) in
            while cursor.next() {
                guard cursor.isDoomed(by: doomed) else { continue }
                victims.insert(ordinal)
                return
            }
        }
        return directory.withLock { directory in
            victims.sorted().map { ordinal in
                VictimCandidate(ordinal: ordinal, block: directory.blocks[Int(ordinal)])
            }
        }
    }

    private func forEachRun(
        of vBucket: VBucketID,
        _ reader: LaneReader,
        _ visit: (MetadataCursor, UInt32) -> Void
    ) throws(StorageError) {
        var last: UInt64 = 0
        while let (run, block) = directory.withLock({ $0.run(after: last, in: vBucket.number) }) {
            guard try reader.openMeta(block), reader.cursor.select(vBucket.number, after: last)
            else { throw reader.damaged(block, .meta) }
            visit(reader.cursor, run.ordinal)
            last = run.last
        }
    }
}

extension MetadataCursor {
    fileprivate func isDoomed(by doomed: Doomed) -> Bool {
        guard let tombstone = doomed[key.bytes] else { return false }
        return seqno <= tombstone.seqno
    }
}

/// Tombstones that are to go, by key.
private typealias Doomed = [[UInt8]: Tombstone]

private struct Tombstone {
    let seqno: Seqno
    let revision: UInt64
}

extension Doomed {
    /// Leaves the younger ones to another time: each key goes for itself, with all its versions.
    fileprivate mutating func keepOldestHalf() {
        let seqnos = values.map(\.seqno).sorted()
        let last = seqnos[(seqnos.count - 1) / 2]
        self = filter { $0.value.seqno <= last }
    }
}

extension PurgeSummary {
    fileprivate mutating func note(_ doomed: Doomed) {
        purged = doomed.count
        for tombstone in doomed.values {
            purgeSeqno = max(purgeSeqno, tombstone.seqno)
            maxRevision = max(maxRevision, tombstone.revision)
        }
    }
}
