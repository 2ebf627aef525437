extension HashTable {
    /// Calls `body` for the documents of some groups, from the hash `start` on, in hash order.
    ///
    /// Stubs are skipped. A whole pass visits each document that is in the table throughout at
    /// least once, and may visit documents that are added or removed meanwhile.
    ///
    /// - Parameters:
    ///   - start: 0, or the result of the previous call.
    ///   - groupsMax: Maximum groups to visit.
    ///   - body: Must not change the table.
    /// - Returns: The start of the next call; nil at the end.
    package func visit(from start: UInt64, groupsMax: Int, _ body: (Item) -> Void) -> UInt64? {
        visitPlaces(from: start, groupsMax: groupsMax) { body($0.item) }
    }

    /// As `visit`, for counting: a whole pass over an unchanged table visits each document exactly
    /// once.
    func visitOnce(from start: UInt64, groupsMax: Int, _ body: (Item) -> Void) -> UInt64? {
        visitPlaces(from: start, groupsMax: groupsMax, overlaps: false) { body($0.item) }
    }

    /// As `visit`, for callers that may change the visited documents afterwards.
    ///
    /// A place stays valid while documents are only replaced; a removal moves entries at and after
    /// its place, so places are removed from the last to the first.
    ///
    /// - Parameters:
    ///   - start: 0, or the result of the previous call.
    ///   - groupsMax: Maximum groups to visit.
    ///   - overlaps: Whether documents whose home is in these groups but which lie in later groups
    ///     are visited by this call as well as by the next.
    ///   - body: Must not change the table.
    /// - Returns: The start of the next call; nil at the end.
    package func visitPlaces(
        from start: UInt64,
        groupsMax: Int,
        overlaps: Bool = true,
        _ body: (Place) -> Void
    ) -> UInt64? {
        precondition(groupsMax > 0, "a visit covers at least one group")
        var (next, left) = (start, groupsMax)
        while let (segment, position) = segment(of: next) {
            let depth = directoryEntry(next).map { $0.0.depth(at: $0.1) } ?? 0
            let first = segment.home(position)
            let end = first + min(left, segment.groups - first)
            var index = first
            // Documents with a home in these groups may lie in later groups. They have to be
            // visited now: if the table grows, the next call begins after their hash.
            let last = overlaps || end == segment.groups ? segment.groupsWithSpares : end
            while index < end || (index < last && segment.isFull(index - 1)) {
                let group = segment.group(index)
                for place in 0..<Segment.slotsPerGroup where Slot(group[place]).isResident {
                    let item = Slot(group[place]).item
                    body(Place(segment: segment, group: index, place: place, item: item))
                }
                index += 1
            }
            left -= end - first
            if end < segment.groups {
                // Converts the segment's position bits to a whole hash.
                let above = depth == 0 ? 0 : (next >> (64 - depth)) << (64 - depth)
                return above | segment.lowestPosition(ofHome: end) >> depth
            }
            guard depth > 0 else { return nil }
            let step = UInt64(1) << (64 - depth)
            let (following, overflow) = (next & ~(step - 1)).addingReportingOverflow(step)
            if overflow { return nil }
            next = following
            if left <= 0 { return next }
        }
        return nil
    }
}
