internal import Bytes
internal import Vocabulary

extension Tree {
    /// Reduces the numbers of a range, with the stored results of whole children where they are
    /// valid, and from the rows where they are not.
    ///
    /// - Throws: What the sources throw, and `IndexError.damaged` for nodes that contradict each
    ///   other.
    package func reduceNumbers(
        _ range: KeyRange = KeyRange(),
        partials: (any PartialSource)?
    ) throws(IndexError) -> NumericPartial {
        let visitor = NumericFold(source: source, partials: partials)
        var fold = RangeFold(tree: self, visitor: visitor)
        try fold.run(range)
        return fold.visitor.total
    }

    /// Reduces all numbers below a node.
    func reduceNumbers(
        below node: IndexNode,
        partials: any PartialSource
    ) throws(IndexError) -> NumericPartial {
        let visitor = NumericFold(source: source, partials: partials)
        var fold = RangeFold(tree: self, visitor: visitor)
        try fold.visit(node, from: nil, to: nil)
        return fold.visitor.total
    }
}

private struct NumericFold: RangeVisitor {
    let source: any NodeSource
    let partials: (any PartialSource)?
    var total = NumericPartial()
    /// The table of the node whose children were visited last.
    var table: (node: IndexNodeID, results: PartialTable?)?

    mutating func add(_ entry: IndexEntry) throws(IndexError) {
        try source.withValue(entry.value) { total.add($0) }
    }

    mutating func addChild(
        _ child: ChildRef,
        at place: Int,
        of parent: IndexNode
    ) throws(IndexError) -> Bool {
        guard let partials else { return false }
        if table?.node != parent.id { table = (parent.id, try partials.partials(of: parent.id)) }
        let result = table?.results?.result(of: child.id, version: child.version, hint: place)
        guard let result, let partial = NumericPartial(encoded: result) else { return false }
        total.merge(partial)
        return true
    }
}
