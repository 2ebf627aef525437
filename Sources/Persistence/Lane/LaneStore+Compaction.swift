package import Bytes
package import Vocabulary

/// The result of a compaction step.
package struct CompactionSummary: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// There was nothing to do.
        case nothing
        /// Blocks with dead documents were rewritten without them.
        case compacted
        /// Mixed blocks were rewritten as pure ones.
        case merged
        /// Free pages were returned to the file system.
        case vacuumed
    }

    package var kind = Kind.nothing
    /// Documents that were rewritten.
    package var rewritten = 0
    /// Dead documents that were removed.
    package var dropped = 0
    /// Bytes of values that were rewritten, before compression.
    package var rawBytes = 0
}

/// The progress of a lane's compaction.
struct CompactionProgress {
    /// A step compacts blocks of one eighth of the vBuckets, so that its output is pure.
    static let groups = 8
    /// The group of the next step.
    var group = 0
}

extension LaneStore {
    /// How urgently the lane needs compaction now.
    package func compactionNeeded() -> CompactionNeed {
        directory.withLock { directory in
            CompactionNeed(
                documents: directory.documents,
                dead: directory.documents - directory.live,
                mixedDocuments: directory.mixedDocuments,
                settings: settings
            )
        }
    }

    /// Stored documents, dead ones included, that steps would rewrite or remove until there is nothing
    /// to do, if no change arrived meanwhile: an estimate for people.
    package func documentsToCompact() -> Int {
        let unreadable = unreadable.withLock { $0 }
        let isMerging = compactionNeeded().wantsMerging
        return directory.withLock { directory in
            directory.documentsToCompact(isMerging: isMerging, except: unreadable)
        }
    }

    /// Runs one bounded step in one transaction: compaction, else merging, else vacuum.
    ///
    /// A version at seqno s is dropped if the directory has it marked dead, or if `currentSeqno`
    /// returns c > s for its key and c is committed. A successor that is not on disk does not make a
    /// version dead. Must not be called before warmup has ended; a vBucket that warmup could not
    /// read loses nothing.
    ///
    /// - Parameters:
    ///   - bytesMax: Approximate maximum bytes of values to rewrite.
    ///   - isUnhurried: Whether no caller waits: compress for size instead of speed.
    ///   - currentSeqno: Returns the seqno that the hash table has for a key, read under the
    ///     vBucket's lock; nil if it has none. It receives the version's seqno too: a table that
    ///     keeps only seqnos needs it, and a vBucket that was not read back must return it.
    /// - Throws: `StorageError` if a block cannot be read or the file cannot be written. Nothing has
    ///   changed then.
    /// - Returns: The kind of step and its size.
    package func compactStep(
        bytesMax: Int,
        isUnhurried: Bool = false,
        currentSeqno: (VBucketID, _ key: ByteView, _ seqno: Seqno) -> Seqno?
    ) throws(StorageError) -> CompactionSummary {
        guard exists else { return CompactionSummary() }
        return try write { (writer, lane) throws(StorageError) in
            lane.encoder.isSmall = isUnhurried
            defer { lane.encoder.isSmall = false }
            if let victims = deadVictims(&writer.compaction, bytesMax) {
                return try rewrite(
                    victims,
                    .compacted,
                    to: &writer,
                    lane: lane,
                    currentSeqno: currentSeqno
                )
            }
            if let victims = mixedVictims(bytesMax) {
                return try rewrite(
                    victims,
                    .merged,
                    to: &writer,
                    lane: lane,
                    currentSeqno: currentSeqno
                )
            }
            var summary = CompactionSummary()
            if try vacuum(lane.connection) { summary.kind = .vacuumed }
            return summary
        }
    }

    private func rewrite(
        _ victims: [VictimCandidate],
        _ kind: CompactionSummary.Kind,
        to writer: inout Writer,
        lane: LaneWriter,
        currentSeqno: (VBucketID, ByteView, Seqno) -> Seqno?
    ) throws(StorageError) -> CompactionSummary {
        var summary = try rewrite(victims, &writer, lane: lane) { vBucket, cursor, isNoted in
            isDead(vBucket, cursor, isRecorded: isNoted, currentSeqno: currentSeqno)
        }
        summary.kind = kind
        return summary
    }

    func isDead(
        _ vBucket: VBucketID,
        _ cursor: MetadataCursor,
        isRecorded isNoted: Bool,
        currentSeqno: (VBucketID, ByteView, Seqno) -> Seqno?
    ) -> Bool {
        guard !isHeld(cursor.seqno, in: vBucket) else { return false }
        guard let current = currentSeqno(vBucket, cursor.key, cursor.seqno) else { return isNoted }
        // The version that the hash table serves is never dropped, even if it is marked dead.
        guard current > cursor.seqno else { return false }
        return isNoted || current.value <= directory.withLock { $0[vBucket.number].high }
    }

    /// Replaces blocks by their live documents, in one transaction that also runs `alongside`.
    func rewrite(
        _ victims: [VictimCandidate],
        _ writer: inout Writer,
        lane: LaneWriter,
        alongside: () throws(StorageError) -> Void = {},
        isDead: (VBucketID, MetadataCursor, _ isNoted: Bool) -> Bool
    ) throws(StorageError) -> CompactionSummary {
        var rewrite = LaneRewrite(directory, try lane.reader(identity))
        var insertions = Insertions()
        var nextBlock = writer.nextBlock
        var packer = writer.packer
        try lane.connection.transaction { () throws(StorageError) in
            for victim in victims {
                do throws(StorageError) {
                    try rewrite.addVictim(victim, isDead: isDead)
                } catch {
                    if let damage = error.damage {
                        unreadable.withLock { _ = $0.insert(damage.block) }
                    }
                    throw error
                }
            }
            try rewrite.write(lane, &packer) { (documents, order) throws(StorageError) in
                try insert(
                    documents,
                    order,
                    block: nextBlock,
                    origin: .compaction,
                    in: lane,
                    counting: &insertions
                )
                nextBlock += 1
            }
            try alongside()
        }
        writer.packer = packer
        writer.nextBlock = nextBlock
        directory.withLock { directory in
            directory.remove(rewrite.victims)
            for inserted in insertions.blocks {
                directory.add(inserted.block, runs: insertions.runs[inserted.runs])
            }
            for (vBucket, seqno) in rewrite.held { directory.markDead(seqno, in: vBucket) }
        }
        return CompactionSummary(
            kind: .compacted,
            rewritten: insertions.summary.documents,
            dropped: rewrite.dropped,
            rawBytes: insertions.summary.rawBytes
        )
    }

    // MARK: Victims

    /// The blocks of the next group with the largest dead shares, within the budget; nil if no group
    /// has any.
    private func deadVictims(
        _ progress: inout CompactionProgress,
        _ bytesMax: Int
    ) -> [VictimCandidate]? {
        let unreadable = unreadable.withLock { $0 }
        for _ in 0..<CompactionProgress.groups {
            let group = progress.group
            progress.group = (group + 1) % CompactionProgress.groups
            // Sorted outside the lock: only the writer changes blocks, and this is the writer.
            let victims = directory.withLock { directory in
                let held = directory.heldOrdinals
                return directory.deadCandidates(group: group, of: CompactionProgress.groups)
                    .filter { !held.contains($0.ordinal) }
            }.sortedByDeadShare().limited(bytesMax: bytesMax, except: unreadable)
            if !victims.isEmpty { return victims }
        }
        return nil
    }

    /// The oldest mixed blocks, within the budget; nil if merging is not needed.
    private func mixedVictims(_ bytesMax: Int) -> [VictimCandidate]? {
        guard compactionNeeded().wantsMerging else { return nil }
        let victims = directory.withLock { directory in
            let held = directory.heldOrdinals
            return directory.mixedCandidates.filter { !held.contains($0.ordinal) }
        }.sortedByAge()
            .limited(bytesMax: bytesMax, except: unreadable.withLock { $0 })
        return victims.isEmpty ? nil : victims
    }

    /// Returns some free pages to the file system if more than a twentieth of the file is free;
    /// false if there was nothing to return.
    private func vacuum(_ connection: SQLiteConnection) throws(StorageError) -> Bool {
        let free = try connection.integer("PRAGMA freelist_count") ?? 0
        let pages = try connection.integer("PRAGMA page_count") ?? 0
        guard free > 64, free * 20 > pages else { return false }
        try connection.execute("PRAGMA incremental_vacuum(256)")
        return try connection.integer("PRAGMA freelist_count") ?? 0 < free
    }
}

/// How urgently a lane needs compaction, from the directory's counts.
///
/// Overwrites leave dead versions in old blocks. Rewriting early saves disk space but costs writes:
/// if all keys are overwritten equally often, a change costs 0.24 rewritten documents at 50 % dead,
/// and 0.80 at 30 %. So the share of the lane's writes spent on compaction grows with the dead
/// share. At 50 %, where disk use equals that of one row per document, compaction outpaces any load.
package struct CompactionNeed: Hashable, Sendable {
    /// Stored documents, dead ones included.
    package let documents: Int
    /// Stored documents that have a persisted successor.
    package let dead: Int
    /// Documents in mixed blocks written by commits.
    package let mixedDocuments: Int
    /// Whether more than a quarter of the lane's documents is in mixed blocks, and enough to fill
    /// pure blocks.
    package let wantsMerging: Bool

    init(documents: Int, dead: Int, mixedDocuments: Int, settings: StoreSettings) {
        self.documents = documents
        self.dead = dead
        self.mixedDocuments = mixedDocuments
        wantsMerging =
            mixedDocuments > settings.mergedDocumentsMin && mixedDocuments * 4 > documents
    }

    /// The share of dead documents, 0 to 1; 0 for an empty lane.
    package var deadShare: Double { documents == 0 ? 0 : Double(dead) / Double(documents) }

    /// Bytes that compaction may write per byte that the flusher writes; 0 if nothing is to do.
    package var bytesPerFlushedByte: Double {
        switch deadShare {
        case 0.50...: 4
        case 0.45...: 1
        case 0.40...: 0.25
        case 0.30...: 0.1
        default: wantsMerging ? 0.25 : 0
        }
    }

    /// Whether the flusher must wait for compaction; meanwhile changes stay in memory.
    package var mustPrecedeFlushing: Bool { deadShare > 0.60 && dead >= CompactionNeed.deadMin }

    /// Whether a compaction step is worthwhile while the lane is idle.
    package var isWorthIdleTime: Bool {
        (deadShare > 0.15 && dead >= CompactionNeed.deadMin) || wantsMerging
    }

    /// Fewer dead documents do not matter.
    private static let deadMin = 1_000
}
