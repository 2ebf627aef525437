internal import Bytes

/// The memory of a vBucket that could be freed if every change were persisted and read by all
/// cursors.
extension VBucketCore {
    /// Adds the bytes that some groups from `start` on could free at most, so that a pager can
    /// decide whether it can ever free enough.
    ///
    /// Locked and prepared documents count, since locks and prepares end by themselves. Documents
    /// that a bucket without a disk keeps until a client deletes them count, too.
    ///
    /// - Parameters:
    ///   - bytes: Incremented by the bytes that could be freed.
    ///   - start: The first group: 0, or the previous call's result.
    ///   - groupsMax: Maximum groups to visit.
    /// - Returns: The start of the next call; nil at the end of the vBucket.
    package func addRemovable(
        to bytes: inout UInt64,
        from start: UInt64,
        groupsMax: Int
    ) -> UInt64? {
        if start == 0 {
            let held = checkpoint.bytesHeld + prepareBytes
            // The chunk of the next change is never freed.
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
