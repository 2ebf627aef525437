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
