internal import Bytes
internal import Vocabulary

/// The memory of a vBucket that could be freed if every change were persisted and read by all
/// cursors.
extension VBucketCore {
    /// Adds up what some groups from `start` on could free, for a pager that needs to know whether
    /// it can ever free enough.
    ///
    /// Locks and prepares end by themselves: what they keep in memory counts as well. Documents that
    /// a bucket without a disk keeps until a client deletes them count, too.
    ///
    /// - Parameters:
    ///   - bytes: Grows by the bytes that could come free.
    ///   - start: Where to begin.
    ///   - groupsMax: How many groups to look at.
    /// - Returns: Where to go on; nil at the end of the vBucket.
    package func addRemovable(
        to bytes: inout UInt64,
        from start: UInt64,
        groupsMax: Int
    ) -> UInt64? {
        if start == 0 {
            let held = checkpoint.bytesHeld + prepareBytes
            // The chunk that takes the next change stays.
            bytes += UInt64(max(0, held - ChangeChunks.chunkBytes))
        }
        return table.visitOnce(from: start, groupsMax: groupsMax) { item in
            let whole = item.blockBytes
            let isKept = isPersistent && !ejectsWhole && !item.isDeleted
            guard isKept else {
                bytes += UInt64(SizeClass.footprint(of: whole))
                return
            }
            guard !item.isEjected else { return }
            let rest = SizeClass.footprint(of: whole - item.valueCount)
            bytes += UInt64(SizeClass.footprint(of: whole) - rest)
        }
    }
}
