internal import Bytes

extension TreeEdit {
    func separator(_ child: ChildRef) -> ByteView {
        ByteView(start: separators.view.start + child.separator, count: child.separatorCount)
    }

    /// The children of an inner node.
    private func children(of node: IndexNode) -> [ChildRef] {
        var children: [ChildRef] = []
        children.reserveCapacity(node.entries + 8)
        var entries = SequentialEntries(node, key: cursorKey)
        while let shape = entries.advance() {
            var child = ChildRef(ChildPayload(node.start, shape.payload))
            child.separator = separators.count
            child.separatorCount = entries.key.count
            separators.append(entries.key.view)
            children.append(child)
        }
        return children
    }

    func editInner(
        _ node: IndexNode,
        _ child: ChildRef,
        range: Range<Int>,
        isLast: Bool,
        into pieces: inout [ChildRef]
    ) throws(IndexError) {
        let old = children(of: node)
        var new: [ChildRef] = []
        new.reserveCapacity(old.count + 8)
        let writesBefore = result.writes.lastIndex
        let freedBefore = result.freed.count
        var next = 0
        var operation = range.lowerBound
        while operation < range.upperBound {
            let place = self.child(old, for: batch.key(batch.operations[operation]), from: next)
            new.append(contentsOf: old[next..<place])
            var end = operation + 1
            if place + 1 == old.count {
                end = range.upperBound
            } else {
                let limit = separator(old[place + 1])
                while end < range.upperBound, batch.key(batch.operations[end]).precedes(limit) {
                    end += 1
                }
            }
            try edit(
                old[place],
                level: node.level - 1,
                operation..<end,
                isLast: isLast && place + 1 == old.count,
                into: &new
            )
            next = place + 1
            operation = end
        }
        new.append(contentsOf: old[next...])
        if result.writes.lastIndex == writesBefore, result.freed.count == freedBefore {
            pieces.append(child)
            return
        }
        try mergeSmall(&new, level: node.level - 1)
        if new.isEmpty { return discard(child) }
        var changed = child
        changed.hasShrunk = new.count < old.count
        writeInner(new, changed, level: node.level, isLast: isLast, pieces: &pieces)
    }

    /// The last child whose separator does not follow `key`; `first` is one such.
    private func child(_ children: [ChildRef], for key: ByteView, from first: Int) -> Int {
        var low = first + 1
        var high = children.count
        while low < high {
            let middle = (low + high) / 2
            if key.precedes(separator(children[middle])) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        return low - 1
    }

    /// Writes `children` in place of the inner node `child`, as one node or several.
    func writeInner(
        _ children: [ChildRef],
        _ child: ChildRef,
        level: Int,
        isLast: Bool,
        pieces: inout [ChildRef]
    ) {
        // Most often one node is enough, so that is tried first.
        let run = pieceRun(level)
        run.removeAll()
        for (index, child) in children.enumerated() {
            let key = index == 0 ? .empty : separator(child)
            child.payload.withView { run.append(key: key, payload: $0) }
            run.rows += child.rows
        }
        if run.bodyBytes <= format.bodyBytesMax || children.count <= 2 {
            pieces.append(write(run, in: child, level: level))
            return
        }
        let total = run.bodyBytes
        var split = PieceWriter(self, level: level, pieces: [child], total: total, isLast)
        for child in children {
            child.payload.withView { split.append(separator(child), $0, rows: child.rows) }
        }
        split.finish(into: &pieces)
    }

    /// Merges every written child below a quarter with its right neighbour, the last one with its
    /// left neighbour; if they do not fit into one node, divides their entries equally.
    private func mergeSmall(_ children: inout [ChildRef], level: Int) throws(IndexError) {
        var index = 0
        while index < children.count, children.count > 1 {
            let child = children[index]
            guard child.hasShrunk, child.place >= 0, child.bytes < format.mergeBytes else {
                index += 1
                continue
            }
            let left = index + 1 < children.count ? index : index - 1
            let pieces = try merge(children[left], children[left + 1], level: level)
            children.replaceSubrange(left...left + 1, with: pieces)
            // One piece may be small still; two are not merged again.
            index = pieces.count == 1 ? left : left + 2
        }
    }

    private func merge(
        _ left: ChildRef,
        _ right: ChildRef,
        level: Int
    ) throws(IndexError) -> [ChildRef] {
        let nodes = (try load(left, level: level), try load(right, level: level))
        var pieces: [ChildRef] = []
        let total = nodes.0.count + nodes.1.count - NodeFormat.headerBytes
        var writer = PieceWriter(self, level: level, pieces: [left, right], total: total, false)
        var isFirst = true
        for node in [nodes.0, nodes.1] {
            var entries = SequentialEntries(node, key: cursorKey)
            while let shape = entries.advance() {
                // The first child of the right node has no key of its own there.
                let isBorder = level > 0 && !isFirst && entries.key.count == 0
                let key = isBorder ? separator(right) : entries.key.view
                let rows = level > 0 ? ChildPayload(node.start, shape.payload).rows : 1
                writer.append(key, entries.payload(shape), rows: rows)
            }
            isFirst = false
        }
        writer.finish(into: &pieces)
        return pieces
    }
}
