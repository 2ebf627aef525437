extension HashTable {
    /// Calls `body` for the documents of some groups, from the hash `start` on, in hash order.
    ///
    /// Stubs are passed over. What was there throughout is seen at least once in a whole pass; what comes and goes, maybe.
    ///
    /// - Parameters:
    ///   - start: Where to go on: 0 at first, then what the last call returned.
    ///   - groupsMax: How many groups to look at before returning.
    ///   - body: Must not change the table.
    /// - Returns: Where to go on, or nil at the end.
    package func visit(from start: UInt64, groupsMax: Int, _ body: (Item) -> Void) -> UInt64? {
        visitPlaces(from: start, groupsMax: groupsMax) { body($0.item) }
    }

    /// As `visit`, for counting: in a whole pass over a table that does not change meanwhile each
    /// document is seen once.
    func visitOnce(from start: UInt64, groupsMax: Int, _ body: (Item) -> Void) -> UInt64? {
        visitPlaces(from: start, groupsMax: groupsMax, overlaps: false) { body($0.item) }
    }

    /// As `visit`, for callers that may change the visited documents afterwards.
    ///
    /// A place stays valid while documents are only replaced; a removal moves what lies at or behind
    /// it, so places are removed from the last one to the first.
    ///
    /// - Parameters:
    ///   - start: Where to go on: 0 at first, then what the last call returned.
    ///   - groupsMax: How many groups to look at before returning.
    ///   - overlaps: Documents of these groups that lie in later ones are seen by this call as well
    ///     as by the next one.
    ///   - body: Must not change the table.
    /// - Returns: Where to go on, or nil at the end.
    package func visitPlaces(
        from start: UInt64,
        groupsMax: Int,
        overlaps: Bool = true,
        _ body: (Place) -> Void
    ) -> UInt64? {
        precondition(groupsMax > 0, "a visit goes somewhere")
        var (next, left) = (start, groupsMax)
        while let (segment, position) = segment(of: next) {
            let depth = directoryEntry(next).map { $0.0.depth(at: $0.1) } ?? 0
            let first = segment.home(position)
            let end = first + min(left, segment.groups - first)
            var index = first
            // What is at home here may lie behind: all of it has to be seen now, as the next call,
            // after growth perhaps, begins beyond its hash. Seeing some twice is allowed.
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
                // Back among the bits of a whole hash.
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
