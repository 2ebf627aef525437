/// How badly a lane wants compaction, from what the directory counts.
///
/// Overwrites leave dead versions in old blocks. Rewriting early is cheap on disk and dear in
/// writes: at 50 % dead a change costs 0.24 rewritten documents, at 30 % 0.80 (storage.md 3.6). So
/// the share of the lane's writes that goes to compaction grows with the dead share, and 50 %,
/// where disk use is what rows would cost, is where it outruns any load.
package struct CompactionNeed: Hashable, Sendable {
    package let documents: Int
    package let dead: Int
    /// Documents that commits scattered over mixed blocks.
    package let mixedDocuments: Int
    /// Mixed blocks are a quarter of the lane, and enough to fill pure ones.
    package let wantsMerging: Bool

    init(documents: Int, dead: Int, mixedDocuments: Int, settings: StoreSettings) {
        self.documents = documents
        self.dead = dead
        self.mixedDocuments = mixedDocuments
        wantsMerging =
            mixedDocuments > settings.mergedDocumentsMin && mixedDocuments * 4 > documents
    }

    package var deadShare: Double { documents == 0 ? 0 : Double(dead) / Double(documents) }

    /// What compaction may write for every byte that the flusher writes; 0: nothing to do.
    package var bytesPerFlushedByte: Double {
        switch deadShare {
        case 0.50...: 4
        case 0.45...: 1
        case 0.40...: 0.25
        case 0.30...: 0.1
        default: wantsMerging ? 0.25 : 0
        }
    }

    /// The flusher waits for compaction; changes wait in memory meanwhile.
    package var mustPrecedeFlushing: Bool { deadShare > 0.60 && dead >= CompactionNeed.deadMin }

    /// Worth a step while nothing else goes on.
    package var isWorthIdleTime: Bool {
        (deadShare > 0.15 && dead >= CompactionNeed.deadMin) || wantsMerging
    }

    /// Below this many nobody would notice.
    private static let deadMin = 1_000
}
