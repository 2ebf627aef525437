internal import Bytes
package import Indexing
package import Persistence
package import Vocabulary

/// The nodes of an index in one snapshot of its file, for walks and edits.
///
/// Keeps the nodes that it has read, so that edits and walks of one snapshot read each node once.
package final class StoredNodes: NodeSource {
    private let reads: IndexReads
    /// Made for the first node that is read: most queries find all their nodes kept.
    private lazy var bytes = ByteWriter(capacity: 4 << 10)
    private var kept: [IndexNodeID: IndexNode] = [:]
    /// Nodes that are kept at most; a long walk would otherwise keep the whole tree.
    private static let keptMax = 1_024

    /// The nodes that `reads` sees.
    package init(_ reads: IndexReads) {
        self.reads = reads
    }

    /// The node with the number.
    ///
    /// - Throws: `IndexError.damaged` if it is missing or invalid, `unreadable` if reading failed.
    package func node(_ id: IndexNodeID) throws(IndexError) -> IndexNode {
        guard let node = try nodeIfPresent(id) else { throw .damaged(id, "the node is missing") }
        return node
    }

    /// The node with the number; nil if there is none.
    ///
    /// - Throws: `IndexError.damaged` if it is invalid, `unreadable` if reading failed.
    func nodeIfPresent(_ id: IndexNodeID) throws(IndexError) -> IndexNode? {
        if let node = kept[id] { return node }
        bytes.removeAll()
        let isFound = try fetching(at: id) { () throws(StorageError) in
            try reads.node(id, into: bytes)
        }
        guard isFound else { return nil }
        let node = try IndexNode(id, body: bytes.view, format: .standard)
        if kept.count >= StoredNodes.keptMax { kept.removeAll(keepingCapacity: true) }
        kept[id] = node
        return node
    }

    /// The bytes of a value that is too large for a leaf.
    ///
    /// - Throws: `IndexError.damaged` if it is missing or invalid, `unreadable` if reading failed.
    package func bigValue(_ id: IndexValueID) throws(IndexError) -> [UInt8] {
        bytes.removeAll()
        let isFound = try fetching { () throws(StorageError) in try reads.value(id, into: bytes) }
        guard isFound else { throw .damaged(.none, "value \(id.value) is missing") }
        return bytes.bytes
    }

    /// The tree with this root.
    package func tree(_ root: IndexRoot, _ kind: EntryKind) -> Tree {
        Tree(TreeRoot(root), of: kind, from: self)
    }
}

extension IndexTransaction {
    /// Applies the changes of rows and documents to both trees, and that of rows to the tables of
    /// the numeric slots.
    ///
    /// - Throws: `StorageError`: `.damaged` if a node is invalid, or a disk error.
    /// - Returns: The slots in which results are missing now.
    func apply(
        _ update: IndexUpdate,
        _ nodes: StoredNodes,
        numericSlots: [IndexSlotID]
    ) throws(StorageError) -> [IndexSlotID] {
        let edit = try edit(update.rows, head.main, of: .row, in: nodes)
        var incomplete: [IndexSlotID] = []
        // The tables before the nodes: the update reads both as they were before the edit.
        for slot in numericSlots {
            let isComplete = try updateTables(of: slot, edit, by: update.rows, in: nodes)
            if !isComplete { incomplete.append(slot) }
        }
        head.main = try write(edit, of: update.rows)
        let documents = try self.edit(update.documents, head.back, of: .document, in: nodes)
        head.back = try write(documents, of: update.documents)
        return incomplete
    }

    private func edit(
        _ batch: EditBatch,
        _ root: IndexRoot,
        of kind: EntryKind,
        in nodes: StoredNodes
    ) throws(StorageError) -> TreeEditResult {
        try reading { () throws(IndexError) in
            try TreeEdit.apply(batch, to: nodes.tree(root, kind), numbers: head.numbers)
        }
    }

    private func write(_ edit: TreeEditResult, of batch: EditBatch) throws(StorageError)
        -> IndexRoot
    {
        try edit.writes.visit { (node) throws(StorageError) in try write(node.id, node.body) }
        for id in edit.freed { try removeNode(id) }
        for id in edit.bigValuesFreed { try removeValue(id) }
        for value in edit.bigValues { try write(value.id, batch.bigValue(value)) }
        head.numbers = edit.numbers
        return IndexRoot(edit.root)
    }

    /// Stores the nodes and the values of a copy or of a bulk load.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    func store(
        _ writes: NodeWriteList,
        _ values: [(id: IndexValueID, body: [UInt8])]
    ) throws(StorageError) {
        try writes.visit { (node) throws(StorageError) in try write(node.id, node.body) }
        for value in values {
            var failure: StorageError?
            value.body.withUnsafeBytes { bytes in
                do throws(StorageError) {
                    try write(value.id, ByteView(bytes))
                } catch {
                    failure = error
                }
            }
            if let failure { throw failure }
        }
    }

    /// Stores the tables of the inner nodes that an edit wrote; returns whether each child has a
    /// result.
    ///
    /// Tables of freed nodes are removed with the nodes.
    private func updateTables(
        of slot: IndexSlotID,
        _ edit: TreeEditResult,
        by batch: EditBatch,
        in nodes: StoredNodes
    ) throws(StorageError) -> Bool {
        guard !edit.writes.isEmpty else { return true }
        let partials = StoredPartials(reads, slot)
        let update = NumericSlotUpdate(nodes.tree(head.main, .row), partials: partials)
        let bigValues = Dictionary(uniqueKeysWithValues: edit.bigValues.map { ($0.id, $0) })
        var failure: StorageError?
        try reading { () throws(IndexError) in
            try update.process(
                edit.writes,
                bigValues: { bigValues[$0].map { batch.bigValue($0).bytes } },
                store: { node, table in
                    guard failure == nil else { return }
                    do throws(StorageError) {
                        try writeReduction(slot, node, body: table)
                    } catch {
                        failure = error
                    }
                }
            )
        }
        if let failure { throw failure }
        return update.isComplete
    }
}

extension IndexHead {
    /// The next free numbers.
    var numbers: TreeNumbers {
        get { TreeNumbers(nextNode: nextNode.value, nextBigValue: nextValue.value) }
        set {
            nextNode = IndexNodeID(newValue.nextNode)
            nextValue = IndexValueID(newValue.nextBigValue)
        }
    }
}

extension TreeRoot {
    init(_ root: IndexRoot) {
        self.init(
            id: root.node,
            height: Int(root.height),
            version: root.version,
            rows: root.rows
        )
    }
}

extension IndexRoot {
    init(_ root: TreeRoot) {
        self.init(
            node: root.id,
            height: UInt32(root.height),
            version: root.version,
            rows: root.rows
        )
    }
}

/// Runs `body`, which reads the trees of an index, with the errors of its file.
func reading<Result>(
    _ body: () throws(IndexError) -> Result
) throws(StorageError) -> Result {
    do throws(IndexError) {
        return try body()
    } catch {
        throw StorageError(error)
    }
}

/// Runs `body`, which reads `node`, a value or a run, with the errors of an index's trees.
func fetching<Result>(
    at node: IndexNodeID = .none,
    _ body: () throws(StorageError) -> Result
) throws(IndexError) -> Result {
    do throws(StorageError) {
        return try body()
    } catch {
        throw IndexError(error, at: node)
    }
}

extension StorageError {
    /// An error of a tree as an error of its file.
    init(_ error: IndexError) {
        switch error {
        case .damaged(let id, let text): self.init(.damaged, "\(id): \(text)")
        case .unreadable(let text): self.init(.failed, text)
        }
    }
}

extension IndexError {
    /// An error of a file as an error of a tree: damage of the file is damage of its tree, since another
    /// attempt to read it fails as well.
    init(_ error: StorageError, at node: IndexNodeID = .none) {
        self =
            error.code == .damaged
            ? .damaged(node, error.description) : .unreadable(error.description)
    }
}
