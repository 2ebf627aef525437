internal import Bytes
internal import Vocabulary

/// Reduces a range, or its groups, by a reduction that the caller computes.
///
/// The machine reads the tree and the stored results, and returns the calls that are needed, many at
/// a time, so that one exchange with the script process serves up to 64 groups or leaves. Results
/// are opaque bytes. What it computes of whole children is in `computed`, for the caller to store.
///
/// - A result covers its rows in the order of keys, also if the groups are descending.
/// - With a mask, stored results are neither read nor made.
package final class CustomReduce {
    package enum Step {
        /// Calls to compute: `supply` must be called with their results, in the same order.
        case needs([ReduceCall])
        case group(prefix: [UInt8], result: [UInt8])
        /// As many children or groups were read as one turn may: call `next` again.
        case paused
        case done
    }

    /// A node whose children are being visited.
    private struct Visit {
        let node: IndexNode
        let frame: ReduceFrame
        var next: Int
        let last: Int
        /// Whether the first and the last child lie in the range only in part.
        let isPartial: (first: Bool, last: Bool)
        let first: Int
        let results: PartialTable?
        let ownsFrame: Bool
    }

    /// Calls in one exchange.
    private static let callsMax = 64
    /// Bytes of rows in one exchange.
    private static let callBytesMax = 256 << 10
    /// Partial results in one call.
    private static let piecesMax = 128

    private let tree: Tree
    private let partials: any PartialSource
    private let groups: GroupWalk?
    private let mask: VBucketMask?
    private var open: [ReduceFrame] = []
    private var calls: [ReduceCall] = []
    private var supplied: [ReduceTarget] = []
    private var visits: [Visit] = []
    /// The group whose range is being visited.
    private var current: (frame: ReduceFrame, range: KeyRange)?
    private var isExhausted = false
    /// Results of children that had none; the caller may take and remove them after each step.
    package var computed: [ComputedPartial] = []

    /// Reduces each group of the range; without `groups`, the whole range as one group with an empty
    /// prefix, of the rows of `mask`.
    package init(
        _ tree: Tree,
        _ range: KeyRange,
        groups settings: GroupWalk.Settings? = nil,
        mask: VBucketMask? = nil,
        partials: any PartialSource
    ) {
        self.tree = tree
        self.partials = partials
        self.mask = settings?.mask ?? mask
        groups = settings.map { GroupWalk(tree, range, settings: $0) }
        guard settings == nil else { return }
        let frame = ReduceFrame(groupPrefix: [])
        open = [frame]
        current = (frame, range)
    }

    /// Advances the walk to its next step.
    ///
    /// - Parameter readsMax: Children or groups to read; if they need no call and end no group, as
    ///   with a mask, the step is `paused`.
    /// - Returns: The step.
    /// - Throws: What the sources throw, and `IndexError.damaged` for nodes that contradict each
    ///   other. The walk must not be continued then.
    package func next(readsMax: Int = .max) throws(IndexError) -> Step {
        precondition(supplied.isEmpty, "the results of the last step are missing")
        var reads = 0
        while true {
            while let frame = open.first, frame.isReady, frame.pieces.count <= 1 {
                open.removeFirst()
                // A masked range may be empty.
                if let result = frame.pieces.first ?? nil {
                    return .group(prefix: frame.prefix, result: result)
                }
            }
            let bytes = calls.reduce(0) { $0 + $1.byteCount }
            let isFull =
                calls.count >= Self.callsMax || bytes >= Self.callBytesMax
                || open.count >= Self.callsMax && current == nil && visits.isEmpty
            if isFull || isExhausted && !calls.isEmpty {
                supplied = calls.map(\.target)
                defer { calls = [] }
                return .needs(calls)
            }
            if isExhausted { return .done }
            guard reads < readsMax else { return .paused }
            reads += 1
            try proceed()
        }
    }

    /// Continues with the results of the calls that the last step returned.
    package func supply(_ results: [[UInt8]]) {
        precondition(results.count == supplied.count, "every call has one result")
        let targets = supplied
        supplied = []
        for (target, result) in zip(targets, results) { resolve(target, result) }
    }

    private func resolve(_ target: ReduceTarget, _ result: [UInt8]) {
        if let child = target.child {
            computed.append(
                ComputedPartial(
                    parent: child.parent,
                    child: child.id,
                    version: child.version,
                    result: result
                )
            )
        }
        target.frame.set(target.place, result)
        reduceIfReady(target.frame)
    }

    /// Makes one result of a frame's pieces once all are there.
    private func reduceIfReady(_ frame: ReduceFrame) {
        guard frame.isReady else { return }
        guard frame.pieces.count > 1 else {
            if let target = frame.target, let result = frame.pieces.first ?? nil {
                resolve(target, result)
            }
            return
        }
        let pieces = frame.pieces.compactMap { $0 }
        frame.pieces = []
        for start in stride(from: 0, to: pieces.count, by: Self.piecesMax) {
            let part = pieces[start..<min(start + Self.piecesMax, pieces.count)]
            if part.count == 1 {
                frame.append(part[start])
                continue
            }
            let target = ReduceTarget(frame: frame, place: frame.appendPending())
            var call = ReduceCall(isRereduce: true, for: target)
            for piece in part { call.append(piece) }
            calls.append(call)
        }
    }

    // MARK: Reading

    /// Reads one more child, or begins one more group.
    private func proceed() throws(IndexError) {
        if let visit = visits.popLast() {
            try proceed(visit)
        } else if let (frame, range) = current {
            current = nil
            try begin(range, frame)
        } else if let groups {
            try proceed(groups)
        } else {
            isExhausted = true
        }
    }

    private func proceed(_ groups: GroupWalk) throws(IndexError) {
        let unnamed = ReduceFrame(groupPrefix: [])
        var call = ReduceCall(isRereduce: false, for: ReduceTarget(frame: unnamed, place: 0))
        let source = tree.source
        let group = try groups.next { (entry) throws(IndexError) in
            try call.append(entry, from: source)
        }
        guard let group else {
            isExhausted = true
            return
        }
        let frame = ReduceFrame(groupPrefix: group.prefix)
        open.append(frame)
        if let range = group.range {
            current = (frame, range)
        } else if call.count == 0 {
            // A group without rows of the mask.
            frame.isComplete = true
        } else {
            call.target = ReduceTarget(frame: frame, place: frame.appendPending())
            calls.append(call)
            frame.isComplete = true
        }
    }

    private func begin(_ range: KeyRange, _ frame: ReduceFrame) throws(IndexError) {
        guard tree.root.id != .none else {
            frame.isComplete = true
            return
        }
        bounds = KeyBounds(range)
        let root = try tree.rootNode()
        try visit(
            root,
            isFirst: bounds.low != nil,
            isLast: bounds.high != nil,
            frame: frame,
            child: nil
        )
        if root.isLeaf { complete(frame) }
    }

    /// The range that is being visited.
    private var bounds = KeyBounds(KeyRange())

    private func complete(_ frame: ReduceFrame) {
        frame.isComplete = true
        reduceIfReady(frame)
    }

    /// Begins an inner node, or makes a call of a leaf's rows; `child` is the child whose result it
    /// becomes.
    private func visit(
        _ node: IndexNode,
        isFirst: Bool,
        isLast: Bool,
        frame: ReduceFrame,
        child: (parent: IndexNodeID, id: IndexNodeID, version: UInt32)?
    ) throws(IndexError) {
        let low = isFirst ? bounds.low : nil
        let high = isLast ? bounds.high : nil
        if node.isLeaf {
            return try visitLeaf(node, from: low, to: high, frame: frame, child: child)
        }
        var target = frame
        if let child {
            let place = frame.appendPending()
            target = ReduceFrame(
                target: ReduceTarget(frame: frame, place: place, child: child)
            )
        }
        let first = low.map { node.child(for: $0) } ?? 0
        visits.append(
            Visit(
                node: node,
                frame: target,
                next: first,
                last: high.map { node.child(for: $0) } ?? node.entries - 1,
                isPartial: (low != nil, high != nil),
                first: first,
                results: mask == nil ? try partials.partials(of: node.id) : nil,
                ownsFrame: child != nil || visits.isEmpty
            )
        )
    }

    private func visitLeaf(
        _ node: IndexNode,
        from low: ByteView?,
        to high: ByteView?,
        frame: ReduceFrame,
        child: (parent: IndexNodeID, id: IndexNodeID, version: UInt32)?
    ) throws(IndexError) {
        let place = frame.pieces.count
        var call = ReduceCall(
            isRereduce: false,
            for: ReduceTarget(frame: frame, place: place, child: child)
        )
        var cursor = LeafCursor(node)
        if let low { cursor.seek(low) }
        while cursor.advance(), let entry = cursor.entry {
            if let high, !entry.key.precedes(high) { break }
            if let mask, !mask.contains(entry.vBucket) { continue }
            try call.append(entry, from: tree.source)
        }
        if call.count > 0 {
            _ = frame.appendPending()
            calls.append(call)
        }
    }

    /// Reads the next child of a node.
    private func proceed(_ visit: Visit) throws(IndexError) {
        var visit = visit
        guard visit.next <= visit.last else {
            if visit.ownsFrame { complete(visit.frame) }
            return
        }
        let place = visit.next
        visit.next += 1
        visits.append(visit)
        let child = visit.node.children[place]
        let isFirst = visit.isPartial.first && place == visit.first
        let isLast = visit.isPartial.last && place == visit.last
        let isWhole = mask == nil && !isFirst && !isLast
        if isWhole,
            let result = visit.results?.result(
                of: child.id,
                version: child.version,
                hint: place
            )
        {
            return visit.frame.append(result.bytes)
        }
        let node = try tree.node(child.id, level: visit.node.level - 1, child.version)
        let target = isWhole ? (visit.node.id, child.id, child.version) : nil
        try self.visit(node, isFirst: isFirst, isLast: isLast, frame: visit.frame, child: target)
    }
}
