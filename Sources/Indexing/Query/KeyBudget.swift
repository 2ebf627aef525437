/// Decides which queries may have their parsed keys in memory at a time.
///
/// One query may have 262 144 `keys` with 8 MiB of sort keys. Without a common bound, the queries that a node
/// coordinates at a time, and those that wait for a slot, could have several gigabytes.
///
/// - A query whose keys need at most `ownBytes` is not counted: keys of other queries never refuse it.
/// - A query that is alone always fits, so none is refused forever.
/// - Queries of clients leave a part of the budget to the parts of other nodes' queries. Their clients would
///   get an answer with `errors`; a client of this node gets a 503 before the first byte.
package struct KeyBudget: Sendable {
    /// Bytes of memory for the keys of all counted queries of a node: three of the largest ones, which need
    /// 72 MiB each on a node without others.
    package static let bytesMax = 256 << 20
    /// Bytes that each query may have besides: 64 running queries and 1 024 waiting ones have 68 MiB.
    package static let ownBytes = 64 << 10

    /// Where a query comes from.
    package enum Origin: Sendable {
        /// A client, whose query this node coordinates.
        case client
        /// Another node, which coordinates the query.
        case node
    }

    private let bytesMax: Int
    private var clientBytes = 0
    private var nodeBytes = 0

    /// A budget of which nothing is used.
    package init(bytesMax: Int = KeyBudget.bytesMax) {
        self.bytesMax = bytesMax
    }

    /// Bytes of the counted queries.
    package var usedBytes: Int { clientBytes + nodeBytes }

    /// Bytes of the budget that queries of clients may use.
    private var clientBytesMax: Int { bytesMax / 4 * 3 }

    /// Whether a query counts, because its keys need so many bytes.
    package static func counts(_ bytes: Int) -> Bool { bytes > ownBytes }

    /// Accounts for the keys of one query.
    ///
    /// - Returns: Whether the memory suffices; if not, nothing changed.
    package mutating func reserve(_ bytes: Int, for origin: Origin) -> Bool {
        guard KeyBudget.counts(bytes) else { return true }
        switch origin {
        case .client:
            let fits = usedBytes + bytes <= bytesMax && clientBytes + bytes <= clientBytesMax
            guard fits || clientBytes == 0 else { return false }
            clientBytes += bytes
        case .node:
            guard usedBytes + bytes <= bytesMax || nodeBytes == 0 else { return false }
            nodeBytes += bytes
        }
        return true
    }

    /// Ends the account of a query that `reserve` has accepted with the same arguments.
    package mutating func release(_ bytes: Int, for origin: Origin) {
        guard KeyBudget.counts(bytes) else { return }
        switch origin {
        case .client: clientBytes -= bytes
        case .node: nodeBytes -= bytes
        }
        precondition(clientBytes >= 0 && nodeBytes >= 0, "keys are released once")
    }
}

// MARK: Estimates

/// Memory of an array of bytes besides its content: its header, and the allocator's rounding.
private let arrayBytes = 48

/// A range's place in a plan and in the scan that reads it, without the bytes of its bounds.
private let rangeBytes =
    MemoryLayout<RowRange>.stride + MemoryLayout<(Int, KeyRange)>.stride + 2 * arrayBytes

extension ScanPlan {
    /// Bytes of memory of the plan's ranges: what a responder has of the keys of a query.
    package var keyBytes: Int {
        ranges.reduce(0) { $0 + rangeBytes + $1.lower.count + ($1.upper?.count ?? 0) }
    }
}

extension ViewQuery {
    /// Bytes of memory of the keys of a running query, estimated from what is parsed.
    ///
    /// A key is in the query, in both bounds of its range of the plan, and in both bounds of the request to each
    /// other node until that is sent.
    ///
    /// - Parameter otherNodes: Nodes that are asked over connections.
    /// - Returns: The bytes.
    package func keyBytes(otherNodes: Int) -> Int {
        let copies = 3 + 2 * otherNodes
        let besides = MemoryLayout<[UInt8]>.stride + arrayBytes + rangeBytes
        let bounds = [selection.startKey, selection.endKey].reduce(0) { $0 + ($1?.count ?? 0) }
        return (selection.keys ?? []).reduce(copies * bounds) { $0 + copies * $1.count + besides }
    }
}
