/// Which blocks are worth rewriting.
extension LaneDirectory {
    /// Blocks with documents of one group of vBuckets, those with the largest dead share first.
    ///
    /// Blocks that no run speaks of any more belong to every group: they cost nothing to remove.
    func deadVictims(
        group: Int,
        of groups: Int,
        bytesMax: Int,
        except unreadable: Set<UInt64>
    ) -> [UInt32] {
        var isReferred = [Bool](repeating: false, count: blocks.count)
        var found: Set<UInt32> = []
        for (place, entry) in entries.enumerated() {
            for run in entry.runs {
                isReferred[Int(run.ordinal)] = true
                if place * groups / entries.count == group { found.insert(run.ordinal) }
            }
        }
        for (ordinal, block) in blocks.enumerated() where block.id != 0 && !isReferred[ordinal] {
            found.insert(UInt32(ordinal))
        }
        // A tenth at least must be dead: rewriting the rest would not pay.
        let candidates = found.filter { ordinal in
            let block = blocks[Int(ordinal)]
            return Int(block.live) * 10 <= Int(block.documents) * 9 && block.documents > 0
                || !isReferred[Int(ordinal)]
        }
        let sorted = candidates.filter { !unreadable.contains(blocks[Int($0)].id) }.sorted {
            let (one, other) = (blocks[Int($0)], blocks[Int($1)])
            let (left, right) = (
                Int(one.live) * Int(other.documents), Int(other.live) * Int(one.documents)
            )
            return left == right ? one.id < other.id : left < right
        }
        return take(sorted, bytesMax: bytesMax, readMax: 4 * bytesMax)
    }

    /// Mixed blocks of commits, the oldest first.
    func mixedVictims(bytesMax: Int, except unreadable: Set<UInt64>) -> [UInt32] {
        let mixed = blocks.indices.filter { index in
            let block = blocks[index]
            return block.id != 0 && block.isMixed && !unreadable.contains(block.id)
                && block.origin == UInt8(BlockOrigin.commit.rawValue)
        }
        let sorted = mixed.sorted { blocks[$0].id < blocks[$1].id }.map { UInt32($0) }
        return take(sorted, bytesMax: bytesMax, readMax: 4 * bytesMax)
    }

    /// The first of `ordinals`, at least one, until they would write or read too much.
    private func take(_ ordinals: [UInt32], bytesMax: Int, readMax: Int) -> [UInt32] {
        var written = 0
        var read = 0
        var taken: [UInt32] = []
        for ordinal in ordinals {
            let block = blocks[Int(ordinal)]
            let live = Int(block.rawBytes) * Int(block.live) / max(Int(block.documents), 1)
            if !taken.isEmpty, written + live > bytesMax || read + Int(block.rawBytes) > readMax {
                break
            }
            written += live
            read += Int(block.rawBytes)
            taken.append(ordinal)
        }
        return taken
    }
}
