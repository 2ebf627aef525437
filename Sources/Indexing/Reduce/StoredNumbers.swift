internal import Bytes

/// The result of a node in a numeric slot: one entry of a table, or the sum of a whole table.
enum StoredNumbers {
    /// Nothing that is valid for the node's version: it has to be computed.
    case missing
    /// The result is too large for a table, so that every reduction computes it from rows. It is
    /// stored as an entry without bytes.
    case unstored
    case partial(NumericPartial)

    /// Bytes of a result in a table: the sums of about 60 arrays' elements.
    ///
    /// A table has up to 300 results and is written with every change below its node.
    static let bytesMax = 1_024

    init(_ result: ByteView?) {
        guard let result else {
            self = .missing
            return
        }
        if result.isEmpty {
            self = .unstored
        } else {
            self = NumericPartial(encoded: result).map { .partial($0) } ?? .missing
        }
    }

    var isMissing: Bool {
        if case .missing = self { true } else { false }
    }

    /// Appends the rows of `next`, which follow.
    mutating func merge(_ next: StoredNumbers) {
        switch (self, next) {
        case (.missing, _), (_, .missing): self = .missing
        case (.unstored, _), (_, .unstored): self = .unstored
        case (.partial(var total), .partial(let partial)):
            total.merge(partial)
            self = .partial(total)
        }
    }
}

extension PartialTable {
    func numbers(of child: ChildRef, hint: Int) -> StoredNumbers {
        StoredNumbers(result(of: child.id, version: child.version, hint: hint))
    }
}

extension PartialTableWriter {
    /// Appends the entry of a child; none if its result is missing.
    ///
    /// - Returns: What the table has of the child now.
    @discardableResult
    func append(_ child: ChildRef, _ numbers: StoredNumbers, scratch: ByteWriter) -> StoredNumbers {
        scratch.removeAll()
        var stored = numbers
        switch numbers {
        case .missing: return .missing
        case .unstored: break
        case .partial(let partial):
            partial.encode(to: scratch)
            if scratch.count > StoredNumbers.bytesMax {
                scratch.removeAll()
                stored = .unstored
            }
        }
        append(child.id, version: child.version, scratch.view)
        return stored
    }
}

extension Tree {
    /// The numbers of a child whose result its parent's table does not have: of a leaf from its
    /// rows, of an inner node from its own table.
    ///
    /// Reads one node.
    func storedNumbers(
        of child: ChildRef,
        level: Int,
        _ partials: any PartialSource
    ) throws(IndexError) -> StoredNumbers {
        let node = try node(child.id, level: level, child.version)
        if node.isLeaf { return .partial(try reduceNumbers(below: node, partials: partials)) }
        guard let table = try partials.partials(of: node.id) else { return .missing }
        var total = StoredNumbers.partial(NumericPartial())
        for (place, child) in node.children.enumerated() {
            total.merge(table.numbers(of: child, hint: place))
        }
        return total
    }
}
