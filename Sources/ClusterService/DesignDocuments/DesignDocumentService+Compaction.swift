package import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// A design document whose indexes a node compacts, or ceases to compact.
package struct ViewCompactionOrder: Hashable, Sendable {
    /// The bucket's UUID: another bucket may have its name by now.
    package private(set) var bucket: String
    /// Without `_design/`.
    package private(set) var designDocument: String
    package private(set) var isCancellation: Bool
}

extension ViewCompactionOrder: ExtensibleFields {
    package init() { self.init(bucket: "", designDocument: "", isCancellation: false) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try coder.field(&designDocument, "design document")
        try coder.field(&isCancellation, "cancellation")
    }
}

/// Compaction of a design document's indexes, on every node with a part of the bucket.
extension DesignDocumentService {
    /// How long a request is repeated to nodes that have not begun: a node opens the indexes of a new
    /// design document some moments after it has applied the document.
    private static var beginningNanoseconds: UInt64 { 2_000_000_000 }
    private static var beginningPauseNanoseconds: UInt64 { 100_000_000 }

    /// Starts compaction on all nodes; it continues in the background.
    ///
    /// A node that has not opened the indexes yet is asked again, for two seconds. Nodes that do not answer
    /// delay the outcome by four seconds at most.
    ///
    /// - Throws: `unknown`, or `failed` with the nodes that have not begun.
    package func compactViews(
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async throws(AdministrationError) {
        let deadline = cluster.monotonicNanoseconds + Self.beginningNanoseconds
        var begun: Set<NodeNumber> = []
        while true {
            // Read again each time: the document may be deleted meanwhile.
            let (orders, servers) = try compactionOrders(isCancellation: false, name, bucket)
            let rest = servers.filter { !begun.contains($0.number) }
            let missing = await carryOut(orders, on: rest).map(\.node)
            if missing.isEmpty { break }
            begun.formUnion(Set(rest.map(\.number)).subtracting(missing.map(\.number)))
            guard cluster.monotonicNanoseconds < deadline, cluster.isServing else {
                throw Self.refusal(missing, hasBegun: !begun.isEmpty)
            }
            _ = await cluster.whenChanged(within: Self.beginningPauseNanoseconds) { _ in false }
        }
        cluster.logEvent(
            .info,
            .bucket,
            of: bucket,
            "Compaction of the views of design document \"\(name)\" of bucket \"\(bucket)\" began."
        )
    }

    /// The error of a compaction that these nodes have not begun, and that others have or have not.
    private static func refusal(_ missing: [NodeRecord], hasBegun: Bool) -> AdministrationError {
        let names = missing.map(\.otpNode).joined(separator: ", ")
        return .failed(
            hasBegun
                ? "Compaction has begun, but not on \(names): the node does not answer, or its indexes "
                    + "are not open. Retry."
                : "Compaction has not begun on any node: \(names) did not answer, or the indexes are not "
                    + "open there. Retry."
        )
    }

    /// Ends compactions that are still copying, on all nodes that answer.
    ///
    /// - Throws: `unknown`.
    package func cancelViewCompaction(
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async throws(AdministrationError) {
        let (orders, servers) = try compactionOrders(isCancellation: true, name, bucket)
        // A node that does not answer compacts to the end, which is no error.
        _ = await carryOut(orders, on: servers)
    }

    /// The order and the nodes with a part of the bucket; none if the document has no views, and so no index.
    private func compactionOrders(
        isCancellation: Bool,
        _ name: String,
        _ bucketName: String
    ) throws(AdministrationError) -> (orders: [ViewCompactionOrder], servers: [NodeRecord]) {
        let bucket = try cluster.requireBucket(named: bucketName)
        guard let document = bucket.designDocument(named: name) else { throw .unknown }
        guard !document.definition.views.isEmpty else { return ([], []) }
        let order = ViewCompactionOrder(
            bucket: bucket.settings.uuid,
            designDocument: name,
            isCancellation: isCancellation
        )
        return ([order], cluster.state.servers(of: bucket))
    }

    /// Has these nodes carry out all orders, all at once; waits two seconds at most.
    ///
    /// - Returns: The nodes that have not carried out all of them, in the order of `nodes`, with the
    ///   design documents of the others.
    func carryOut(
        _ orders: [ViewCompactionOrder],
        on nodes: [NodeRecord]
    ) async -> [(node: NodeRecord, designDocuments: [String])] {
        let this = cluster.thisNode
        let own = nodes.contains { $0.number == this } ? orders.map(follow) : []
        var outcomes = await cluster.send(
            nodes.filter { $0.number != this }.flatMap { node in
                orders.map {
                    NodeOrder(node: node.number, kind: PeerKind.compactViews, bytes: $0.encoded)
                }
            }
        )[...]
        return nodes.compactMap { node in
            var followed = own[...]
            if node.number != this {
                followed = outcomes.prefix(orders.count)
                outcomes = outcomes.dropFirst(orders.count)
            }
            let refused = zip(orders, followed).filter { !$0.1 }.map(\.0.designDocument)
            return refused.isEmpty ? nil : (node, refused)
        }
    }

    func handleViewCompaction() {
        cluster.calls.handleCalls(PeerKind.compactViews) { [weak self] _, bytes, answer in
            guard let self, let order = ViewCompactionOrder(message: bytes) else {
                return answer([])
            }
            answer(follow(order) ? NodeOrder.carriedOut : [])
        }
    }

    private func follow(_ order: ViewCompactionOrder) -> Bool {
        cluster.settings.compactViews?(order) ?? false
    }
}
