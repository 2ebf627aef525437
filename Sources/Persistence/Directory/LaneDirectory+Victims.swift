/// A block that may be worth rewriting.
struct VictimCandidate {
    let ordinal: UInt32
    let block: LaneDirectory.Block

    /// Bytes of values that rewriting would write again, about.
    var liveBytes: Int { Int(block.rawBytes) * Int(block.live) / max(Int(block.documents), 1) }
}

extension LaneDirectory {
    /// Blocks with documents of one group of vBuckets of which a tenth at least is dead, and no less
    /// than is in the lane as a whole: what is fresh may die by itself before it is worth the work.
    ///
    /// Blocks that are dead as a whole belong to every group: they cost little to remove.
    func deadCandidates(group: Int, of groups: Int) -> [VictimCandidate] {
        var ordinals: Set<UInt32> = []
        let first = group * entries.count / groups
        let end = (group + 1) * entries.count / groups
        for entry in entries[first..<end] {
            for run in entry.runs {
                let block = blocks[Int(run.ordinal)]
                let isWorse = Int(block.live) * documents <= Int(block.documents) * live
                if isWorse, Int(block.live) * 10 <= Int(block.documents) * 9 {
                    ordinals.insert(run.ordinal)
                }
            }
        }
        for (ordinal, block) in blocks.enumerated() where block.id != 0 && block.live == 0 {
            ordinals.insert(UInt32(ordinal))
        }
        return ordinals.map { VictimCandidate(ordinal: $0, block: blocks[Int($0)]) }
    }

    /// Mixed blocks that commits wrote.
    var mixedCandidates: [VictimCandidate] {
        blocks.indices.compactMap { index in
            let block = blocks[index]
            guard block.id != 0, block.isMixed,
                block.origin == UInt8(BlockOrigin.commit.rawValue)
            else { return nil }
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

    /// The first ones, at least one, until they would write `bytesMax` or read four times as much.
    func taken(bytesMax: Int, except unreadable: Set<UInt64>) -> [VictimCandidate] {
        var written = 0
        var read = 0
        var taken: [VictimCandidate] = []
        for candidate in self where !unreadable.contains(candidate.block.id) {
            written += candidate.liveBytes
            read += Int(candidate.block.rawBytes)
            if !taken.isEmpty, written > bytesMax || read > 4 * bytesMax { break }
            taken.append(candidate)
        }
        return taken
    }
}
