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
        mask: VBucketMask? = nil,
        partials: (any PartialSource)?
    ) throws(IndexError) -> NumericPartial {
        var fold = RangeFold(self, mask: mask, NumericFold(source: source, partials: partials))
        try fold.run(range)
        return fold.visitor.total
    }

    /// Reduces all numbers below a node.
    func reduceNumbers(
        below node: Node,
        partials: any PartialSource
    ) throws(IndexError) -> NumericPartial {
        var fold = RangeFold(self, mask: nil, NumericFold(source: source, partials: partials))
        try fold.visit(node, from: nil, to: nil)
        return fold.visitor.total
    }
}

struct NumericFold: RangeVisitor {
    let source: any NodeSource
    let partials: (any PartialSource)?
    var total = NumericPartial()
    /// The table of the node whose children were visited last.
    private var table: (node: IndexNodeID, results: PartialTable?)?

    init(source: any NodeSource, partials: (any PartialSource)?) {
        self.source = source
        self.partials = partials
    }

    mutating func add(_ entry: IndexEntry) throws(IndexError) {
        switch entry.value {
        case .inline(let view): total.add(view)
        case .big(let id, _):
            let bytes = try source.bigValue(id)
            bytes.withUnsafeBytes { total.add(ByteView($0)) }
        }
    }

    mutating func addChild(
        _ child: ChildRef,
        at place: Int,
        of parent: Node
    ) throws(IndexError) -> Bool {
        guard let partials else { return false }
        if table?.node != parent.id { table = (parent.id, try partials.partials(of: parent.id)) }
        let result = table?.results?.result(of: child.id, version: child.version, hint: place)
        guard let result, let partial = NumericPartial(encoded: result) else { return false }
        total.merge(partial)
        return true
    }
}
