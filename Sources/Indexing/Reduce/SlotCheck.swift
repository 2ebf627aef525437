package import Bytes
package import Vocabulary

/// Verifies the stored results of a slot: each that is valid for its child equals the reduction of
/// the rows below the child.
package struct SlotCheck {
    /// Children of inner nodes that have a valid result.
    package private(set) var valid = 0
    /// Children of inner nodes that have none.
    package private(set) var missing = 0
    /// Children whose result is not that of their rows.
    package private(set) var wrong: [IndexNodeID] = []

    /// Calls `isRight` with the part of the tree below each child and its stored result.
    ///
    /// - Throws: What the sources and `isRight` throw, and `IndexError.damaged` for nodes that
    ///   contradict each other: run `TreeCheck` first.
    package static func run(
        _ tree: Tree,
        _ partials: any PartialSource,
        isRight: (_ below: Tree, _ result: ByteView) throws(IndexError) -> Bool
    ) throws(IndexError) -> SlotCheck {
        var check = SlotCheck()
        guard tree.root.height > 1 else { return check }
        try check.visit(tree.rootNode(), tree, partials: partials, isRight: isRight)
        return check
    }

    /// Verifies a numeric slot.
    ///
    /// Sums are compared as they are printed: the last bits depend on the order of additions.
    ///
    /// - Throws: What the sources throw, and `IndexError.damaged` for nodes that contradict each
    ///   other.
    package static func runNumeric(
        _ tree: Tree,
        _ partials: any PartialSource
    ) throws(IndexError) -> SlotCheck {
        try run(tree, partials) { (below, result) throws(IndexError) in
            // An entry without bytes states that the result is too large to be stored.
            if result.isEmpty { return true }
            guard let stored = NumericPartial(encoded: result) else { return false }
            return stored.printed == (try below.reduceNumbers(partials: nil)).printed
        }
    }

    private mutating func visit(
        _ node: IndexNode,
        _ tree: Tree,
        partials: any PartialSource,
        isRight: (_ below: Tree, _ result: ByteView) throws(IndexError) -> Bool
    ) throws(IndexError) {
        let table = try partials.partials(of: node.id)
        for (place, child) in node.children.enumerated() {
            let root = TreeRoot(
                id: child.id,
                height: node.level,
                version: child.version,
                rows: child.rows
            )
            let below = Tree(root, of: tree.kind, from: tree.source, format: tree.format)
            if let result = table?.result(of: child.id, version: child.version, hint: place) {
                valid += 1
                if try !isRight(below, result) { wrong.append(child.id) }
            } else {
                missing += 1
            }
            if node.level > 1 {
                try visit(below.rootNode(), tree, partials: partials, isRight: isRight)
            }
        }
    }
}

extension NumericPartial {
    /// The results of all reductions, with an empty one for an error.
    fileprivate var printed: [[UInt8]] {
        BuiltinReduction.allCases.map { reduction in
            let output = ByteWriter()
            _ = appendResult(of: reduction, to: output)
            return output.bytes
        }
    }
}
