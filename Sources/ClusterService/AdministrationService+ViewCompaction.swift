internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// A design document whose indexes a node compacts, or ceases to compact.
package struct ViewCompactionOrder: Hashable, Sendable {
    /// The bucket's UUID: another bucket may have its name by now.
    package let bucket: String
    /// Without `_design/`.
    package let designDocument: String
    package let isCancellation: Bool
}

extension ViewCompactionOrder: PeerPayload {
    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text(), let document = reader.text(), let flag = reader.flag()
        else { return nil }
        self.init(bucket: bucket, designDocument: document, isCancellation: flag)
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: bucket)
        writer.append(counted: designDocument)
        writer.append(isCancellation)
    }
}

/// Compaction of a design document's indexes, on every node with a part of the bucket.
extension AdministrationService {
    private static var viewCompactionTimeoutNanoseconds: UInt64 { 5_000_000_000 }

    /// Starts compaction on all nodes; it continues in the background.
    ///
    /// - Throws: `DesignDocumentError` with the code `.bucketUnknown`, `.documentUnknown`, or `.failed`
    ///   with the nodes that have not begun.
    package func compactViews(
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async throws(DesignDocumentError) {
        let missing = try await order(isCancellation: false, name, bucket)
        guard missing.isEmpty else {
            throw DesignDocumentError(
                .failed,
                "Compaction has begun, but not on \(missing.joined(separator: ", ")): the node does "
                    + "not answer, or its indexes are not open. Retry."
            )
        }
        logEvent(
            .info,
            .bucket,
            "Compaction of the views of design document \"\(name)\" of bucket \"\(bucket)\" began."
        )
    }

    /// Ends compactions that are still copying, on all nodes that answer.
    ///
    /// - Throws: `DesignDocumentError` with the code `.bucketUnknown` or `.documentUnknown`.
    package func cancelViewCompaction(
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async throws(DesignDocumentError) {
        // A node that does not answer compacts to the end, which is no error.
        _ = try await order(isCancellation: true, name, bucket)
    }

    /// The names of the nodes that have not followed.
    private func order(
        isCancellation: Bool,
        _ name: String,
        _ bucketName: String
    ) async throws(DesignDocumentError) -> [String] {
        guard let bucket = state.bucket(named: bucketName) else {
            throw DesignDocumentError(.bucketUnknown, "There is no bucket \"\(bucketName)\".")
        }
        guard let document = bucket.designDocument(named: name) else {
            throw DesignDocumentError(.documentUnknown, "There is no such design document.")
        }
        // A document without views has no index.
        guard !document.definition.views.isEmpty else { return [] }
        let order = ViewCompactionOrder(
            bucket: bucket.settings.uuid,
            designDocument: name,
            isCancellation: isCancellation
        )
        var missing: [String] = []
        for node in state.servers(of: bucket) {
            if node.number == thisNode {
                if !follow(order) { missing.append(node.otpNode) }
                continue
            }
            let result = await calls.call(
                PeerKind.compactViews,
                order.bytes,
                to: node.number,
                timeoutNanoseconds: Self.viewCompactionTimeoutNanoseconds
            )
            if case .success(NodeOrder.carriedOut) = result { continue }
            missing.append(node.otpNode)
        }
        return missing
    }

    /// Has these nodes carry out all orders, all at once; waits two seconds at most.
    ///
    /// - Returns: The nodes that have not carried out all of them, in the order of `nodes`, with the
    ///   design documents of the others.
    func carryOut(
        _ orders: [ViewCompactionOrder],
        on nodes: [NodeRecord]
    ) async -> [(node: NodeRecord, designDocuments: [String])] {
        let this = thisNode
        let own = nodes.contains { $0.number == this } ? orders.map(follow) : []
        var outcomes = await send(
            nodes.filter { $0.number != this }.flatMap { node in
                orders.map {
                    NodeOrder(node: node.number, kind: PeerKind.compactViews, bytes: $0.bytes)
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
        calls.handleCalls(PeerKind.compactViews) { [weak self] _, bytes, answer in
            guard let self, let order = ViewCompactionOrder(bytes: bytes) else { return answer([]) }
            answer(follow(order) ? NodeOrder.carriedOut : [])
        }
    }

    private func follow(_ order: ViewCompactionOrder) -> Bool {
        settings.compactViews?(order) ?? false
    }
}
