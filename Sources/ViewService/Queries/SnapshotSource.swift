internal import Bytes
internal import Indexing
internal import Persistence
internal import Vocabulary

/// The nodes and stored results of a query's snapshot, of which a scan has a part in each turn.
///
/// A scan lives longer than a turn. Between turns, it must not keep the connection, since the file
/// may be closed then.
final class SnapshotSource: NodeSource, PartialSource {
    private let inner: KeptNodes
    private let leaves: KeptNodes
    private var nodes: StoredNodes?
    private var stored: (any PartialSource)?
    /// Rows that this turn reads at most.
    private(set) var turnRowsMax = 0

    /// A source that shares nodes with the other queries of the index.
    init(_ shared: (inner: KeptNodes, leaves: KeptNodes)) {
        inner = shared.inner
        leaves = shared.leaves
    }

    /// Whether the reduction has stored results.
    var hasPartials: Bool { stored != nil }

    /// Runs a turn, in which the source reads from `reads`, and a scan reads at most `rowsMax` rows.
    func turn<Result>(
        _ reads: IndexReads,
        _ stored: (any PartialSource)?,
        rowsMax: Int,
        body: () throws(IndexError) -> Result
    ) throws(IndexError) -> Result {
        nodes = StoredNodes(reads)
        turnRowsMax = rowsMax
        self.stored = stored
        defer {
            nodes = nil
            self.stored = nil
        }
        return try body()
    }

    private var opened: StoredNodes {
        get throws(IndexError) {
            guard let nodes else { throw .unreadable("the snapshot is read outside of a turn") }
            return nodes
        }
    }

    func node(_ id: IndexNodeID) throws(IndexError) -> IndexNode { try opened.node(id) }

    func node(_ id: IndexNodeID, version: UInt32) throws(IndexError) -> IndexNode {
        if let node = inner.node(id, version: version) { return node }
        if let node = leaves.node(id, version: version) { return node }
        let node = try opened.node(id)
        if !node.isLeaf {
            inner.keep(node)
        } else if turnRowsMax <= ScanInput.firstTurnRowsMax {
            // A long scan would displace the leaves of short queries.
            leaves.keep(node)
        }
        return node
    }

    func bigValue(_ id: IndexValueID) throws(IndexError) -> [UInt8] { try opened.bigValue(id) }

    func partials(of node: IndexNodeID) throws(IndexError) -> PartialTable? {
        try stored?.partials(of: node)
    }

    /// Calls `body` with the value of an entry, whose bytes are valid during the call.
    func withValue(
        of entry: IndexEntry,
        _ body: (ByteView) -> Void
    ) throws(IndexError) {
        switch entry.value {
        case .inline(let view): body(view)
        case .big(let id, _):
            let bytes = try bigValue(id)
            bytes.withUnsafeBytes { body(ByteView($0)) }
        }
    }
}
