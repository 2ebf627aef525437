package import Bytes
package import Vocabulary

/// What a step of compaction came to.
package struct CompactionSummary: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// Nothing was worth doing.
        case nothing
        /// Blocks with dead documents were rewritten without them.
        case compacted
        /// Mixed blocks were rewritten as pure ones.
        case merged
        /// Free pages were given back to the file system.
        case vacuumed
    }

    package var kind = Kind.nothing
    /// Documents that were written again.
    package var rewritten = 0
    /// Documents that are gone.
    package var dropped = 0
    /// Bytes of values that were written again, before compression.
    package var rawBytes = 0
}

/// Where compaction of a lane stands.
struct CompactionProgress {
    /// A step looks at one eighth of the vBuckets, so that its output is pure again.
    static let groups = 8
    /// Which eighth comes next.
    var group = 0
}

extension LaneStore {
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

    /// Does one bounded piece of work in one transaction: compaction, else merging, else vacuum.
    ///
    /// A version s is dropped where the directory was told of its successor, or where
    /// `currentSeqno` says that its key is now at c, s < c, and c is committed. A successor that is
    /// not on disk kills nothing. Not to be called before warmup is through; vBuckets that it could not
    /// read lose nothing.
    ///
    /// - Parameters:
    ///   - bytesMax: Bytes of values to write again at most, about.
    ///   - isUnhurried: Nobody waits: spend time to make the blocks smaller than commits can.
    ///   - currentSeqno: The seqno the table has for a key, asked under the vBucket's lock; nil
    ///     where it has none. With the seqno at hand, for tables that kept only that of a key, and to
    ///     be returned where the table was not read back.
    /// - Throws: What could not be read or written; nothing has changed then.
    /// - Returns: What was done.
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
                return try rewrite(victims, .compacted, &writer, lane, currentSeqno)
            }
            if let victims = mixedVictims(bytesMax) {
                return try rewrite(victims, .merged, &writer, lane, currentSeqno)
            }
            var summary = CompactionSummary()
            if try vacuum(lane.connection) { summary.kind = .vacuumed }
            return summary
        }
    }

    private func rewrite(
        _ victims: [VictimCandidate],
        _ kind: CompactionSummary.Kind,
        _ writer: inout Writer,
        _ lane: LaneWriter,
        _ currentSeqno: (VBucketID, ByteView, Seqno) -> Seqno?
    ) throws(StorageError) -> CompactionSummary {
        var summary = try rewrite(victims, &writer, lane) { vBucket, cursor, isNoted in
            isDead(vBucket, cursor, isNoted, currentSeqno)
        }
        summary.kind = kind
        return summary
    }

    func isDead(
        _ vBucket: VBucketID,
        _ cursor: MetadataCursor,
        _ isNoted: Bool,
        _ currentSeqno: (VBucketID, ByteView, Seqno) -> Seqno?
    ) -> Bool {
        guard !isHeld(cursor.seqno, in: vBucket) else { return false }
        guard let current = currentSeqno(vBucket, cursor.key, cursor.seqno) else { return isNoted }
        // What the table serves is never thrown away, whatever was noted.
        guard current > cursor.seqno else { return false }
        return isNoted || current.value <= directory.withLock { $0[vBucket.number].high }
    }

    /// Replaces blocks by what lives of them, in one transaction, `alongside` included.
    func rewrite(
        _ victims: [VictimCandidate],
        _ writer: inout Writer,
        _ lane: LaneWriter,
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
                    try rewrite.take(victim, isDead: isDead)
                } catch {
                    if let damage = error.damage {
                        unreadable.withLock { _ = $0.insert(damage.block) }
                    }
                    throw error
                }
            }
            try rewrite.write(lane, &packer) { (documents, order) throws(StorageError) in
                try insert(documents, order, nextBlock, .compaction, lane, &insertions)
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

    /// The blocks of the next group with the largest dead share, as many as the budget allows.
    private func deadVictims(
        _ progress: inout CompactionProgress,
        _ bytesMax: Int
    ) -> [VictimCandidate]? {
        let unreadable = unreadable.withLock { $0 }
        for _ in 0..<CompactionProgress.groups {
            let group = progress.group
            progress.group = (group + 1) % CompactionProgress.groups
            // Chosen outside the lock: only the writer, which is us, changes blocks.
            let victims = directory.withLock { directory in
                let held = directory.heldOrdinals
                return directory.deadCandidates(group: group, of: CompactionProgress.groups)
                    .filter { !held.contains($0.ordinal) }
            }.sortedByDeadShare().taken(bytesMax: bytesMax, except: unreadable)
            if !victims.isEmpty { return victims }
        }
        return nil
    }

    /// The oldest mixed blocks, as many as the budget allows.
    private func mixedVictims(_ bytesMax: Int) -> [VictimCandidate]? {
        guard compactionNeeded().wantsMerging else { return nil }
        let victims = directory.withLock { directory in
            let held = directory.heldOrdinals
            return directory.mixedCandidates.filter { !held.contains($0.ordinal) }
        }.sortedByAge()
            .taken(bytesMax: bytesMax, except: unreadable.withLock { $0 })
        return victims.isEmpty ? nil : victims
    }

    /// Gives some free pages back where a twentieth of the file is free; false where it is not.
    private func vacuum(_ connection: Connection) throws(StorageError) -> Bool {
        let free = try connection.integer("PRAGMA freelist_count") ?? 0
        let pages = try connection.integer("PRAGMA page_count") ?? 0
        guard free > 64, free * 20 > pages else { return false }
        try connection.execute("PRAGMA incremental_vacuum(256)")
        return try connection.integer("PRAGMA freelist_count") ?? 0 < free
    }
}
