package import Bytes
package import Vocabulary

/// The result of a purge, and the lower bounds for the engine's record of the vBucket.
package struct PurgeSummary: Hashable, Sendable {
    /// Keys whose tombstones were purged.
    package var purged = 0
    /// Tombstones up to this seqno may be purged; zero if none was.
    package var purgeSeqno = Seqno.zero
    /// The highest revision of a purged tombstone: a new document starts above it.
    package var maxRevision: UInt64 = 0
    /// Whether more tombstones are due than one call purges.
    package var isPartial = false

    package init(isPartial: Bool = false) { self.isPartial = isPartial }
}

extension LaneStore {
    /// Purges the due tombstones of a vBucket and every older version of their keys, in one
    /// transaction.
    ///
    /// If an older version stayed, the next warmup would restore the deleted document, so the purge
    /// reads all metadata of the vBucket. Must not be called before warmup has ended, nor for a
    /// vBucket that warmup could not read. Purges nothing while a scan of the vBucket is open.
    ///
    /// - Parameters:
    ///   - vBucket: The vBucket to purge.
    ///   - deletedBefore: Seconds since 1970: tombstones not older than this stay.
    ///   - seqno: Tombstones above it stay: an open backfill or a cursor needs them.
    ///   - keysMax: The maximum number of keys to purge.
    ///   - bytesMax: Maximum bytes of values in the blocks to rewrite, unless one key needs more.
    ///   - currentSeqno: As for `compactStep`. A tombstone with a successor is not purged;
    ///     compaction removes it.
    ///   - willPurge: Receives the result before the transaction; called under the writer's lock,
    ///     and not if nothing is due.
    ///   - didPurge: Receives each purged key and its tombstone's seqno after the commit, so that
    ///     the hash table removes the key if it still has that seqno.
    /// - Throws: `StorageError` if a block cannot be read or the file cannot be written. Nothing has
    ///   changed then.
    /// - Returns: The number of purged keys and the new lower bounds.
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
            // An open scan may still need an older version of the key. If that version stayed
            // without its tombstone, the deleted document would come back.
            let isScanned = directory.withLock { directory in
                directory.holds.values.contains { $0.vBucket == vBucket.number }
            }
            guard !isScanned else { return }
            let reader = try lane.reader(identity)
            try collect(vBucket, reader, doomed: &doomed, summary: &summary, keysMax: keysMax) {
                meta,
                key in
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
            update.bind(summary.purgeSeqno.value, summary.maxRevision, vBucket.number)
            _ = try rewrite(
                victims,
                &writer,
                lane: lane,
                alongside: { () throws(StorageError) in try update.run() },
                isDead: { other, cursor, isNoted in
                    (other == vBucket && cursor.isDoomed(by: doomed))
                        || isDead(other, cursor, isRecorded: isNoted, currentSeqno: currentSeqno)
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

    /// Finds the keys whose newest version on disk is a tombstone that may be purged.
    private func collect(
        _ vBucket: VBucketID,
        _ reader: LaneReader,
        doomed: inout Doomed,
        summary: inout PurgeSummary,
        keysMax: Int,
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
                    // A later version of the key: compaction removes the tombstone.
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

/// The tombstones to purge, by key.
private typealias Doomed = [[UInt8]: Tombstone]

private struct Tombstone {
    let seqno: Seqno
    let revision: UInt64
}

extension Doomed {
    /// Leaves the younger half to a later purge.
    ///
    /// Keys are independent: each is purged with all its versions.
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
