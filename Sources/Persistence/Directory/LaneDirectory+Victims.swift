/// A block that compaction may rewrite.
struct VictimCandidate {
    let ordinal: UInt32
    let block: LaneDirectory.Block

    /// Approximate bytes of values that rewriting the block would write.
    var liveBytes: Int { Int(block.rawBytes) * Int(block.live) / max(Int(block.documents), 1) }
}

extension LaneDirectory.Block {
    /// Whether too little of the block is dead to rewrite it: less than a tenth.
    fileprivate var isMostlyLive: Bool { Int(live) * 10 > Int(documents) * 9 }

    /// Whether merging rewrites the block.
    fileprivate var isMergeable: Bool {
        id != 0 && isMixed && origin == UInt8(BlockOrigin.commit.rawValue)
    }
}

extension LaneDirectory {
    /// The blocks worth compacting that have documents of one group of vBuckets.
    ///
    /// At least a tenth of such a block is dead, and its dead share is not below the lane's: blocks
    /// with a lower share may lose more documents before rewriting pays off. Completely dead blocks
    /// belong to every group, since removing them is cheap.
    func deadCandidates(group: Int, of groups: Int) -> [VictimCandidate] {
        var ordinals: Set<UInt32> = []
        let first = group * entries.count / groups
        let end = (group + 1) * entries.count / groups
        for entry in entries[first..<end] {
            for run in entry.runs {
                let block = blocks[Int(run.ordinal)]
                let isWorse = Int(block.live) * documents <= Int(block.documents) * live
                if isWorse, !block.isMostlyLive { ordinals.insert(run.ordinal) }
            }
        }
        for (ordinal, block) in blocks.enumerated() where block.id != 0 && block.live == 0 {
            ordinals.insert(UInt32(ordinal))
        }
        return ordinals.map { VictimCandidate(ordinal: $0, block: blocks[Int($0)]) }
    }

    /// Counts the documents that complete compaction would rewrite or remove.
    ///
    /// The blocks that are worse than the lane are rewritten first. This raises the lane's live share,
    /// so that in the end every block with enough dead documents is.
    ///
    /// - Parameters:
    ///   - isMerging: Whether mixed blocks are rewritten too.
    ///   - unreadable: The ids of blocks that are not rewritten.
    /// - Returns: The stored documents in these blocks, dead ones included.
    func documentsToCompact(isMerging: Bool, except unreadable: Set<UInt64>) -> Int {
        let held = heldOrdinals
        var count = 0
        for (ordinal, block) in blocks.enumerated() where block.id != 0 {
            guard !block.isMostlyLive || isMerging && block.isMergeable,
                !held.contains(UInt32(ordinal)), !unreadable.contains(block.id)
            else { continue }
            count += Int(block.documents)
        }
        return count
    }

    /// Mixed blocks written by commits: the candidates for merging.
    var mixedCandidates: [VictimCandidate] {
        blocks.indices.compactMap { index in
            let block = blocks[index]
            guard block.isMergeable else { return nil }
            return VictimCandidate(ordinal: UInt32(index), block: block)
        }
    }
}

extension [VictimCandidate] {
    /// The largest dead share first, then the oldest.
    func sortedByDeadShare() -> [VictimCandidate] {
        sorted { one, other in
            let left = Int(one.block.live) * Int(other.block.documents)
            let right = Int(other.block.live) * Int(one.block.documents)
            return left == right ? one.block.id < other.block.id : left < right
        }
    }

    func sortedByAge() -> [VictimCandidate] { sorted { $0.block.id < $1.block.id } }

    /// The readable candidates from the first on, limited to writing `bytesMax` and reading four
    /// times as much, but at least one.
    func limited(bytesMax: Int, except unreadable: Set<UInt64>) -> [VictimCandidate] {
        var written = 0
        var read = 0
        var chosen: [VictimCandidate] = []
        for candidate in self where !unreadable.contains(candidate.block.id) {
            written += candidate.liveBytes
            read += Int(candidate.block.rawBytes)
            if !chosen.isEmpty, written > bytesMax || read > 4 * bytesMax { break }
            chosen.append(candidate)
        }
        return chosen
    }
}
