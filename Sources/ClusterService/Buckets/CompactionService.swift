internal import Orchestration
internal import Seams
package import Vocabulary

/// Compaction of a bucket, on every node with a part of it.
package final class CompactionService: Sendable {
    let cluster: Cluster
    let statistics: StatisticsService
    let designDocuments: DesignDocumentService

    init(_ statistics: StatisticsService, _ designDocuments: DesignDocumentService) {
        cluster = statistics.cluster
        (self.statistics, self.designDocuments) = (statistics, designDocuments)
    }

    // MARK: Beginning

    /// Starts compaction of the documents and of all views on all nodes; it continues in the
    /// background.
    ///
    /// Only nodes that have begun with the documents receive the orders for the views. If such a node
    /// has not begun with the views, because it has no indexes or they are not open, this is only
    /// logged: each node compacts its indexes by itself too.
    ///
    /// A node that does not answer delays the end by four seconds at most.
    ///
    /// - Throws: As `compact`.
    package func compactAll(_ name: String) async throws(AdministrationError) {
        let bucket = try cluster.requireBucket(named: name)
        let answers = await order(PeerKind.compact, bucket)
        let orders = viewOrders(of: bucket, isCancellation: false)
        for (node, documents) in await designDocuments.carryOut(orders, on: answers.done) {
            let rest = documents.count > 1 ? " and of \(documents.count - 1) more" : ""
            cluster.logEvent(
                .warning,
                .bucket,
                of: name,
                "Node \(node.otpNode) has not begun to compact the views of design document "
                    + "\"\(documents[0])\"\(rest) of bucket \"\(name)\": it does not answer, or its "
                    + "indexes are not open. Retry."
            )
        }
        try requireBeginning(answers, name)
    }

    /// Starts compaction of the documents on all nodes; it continues in the background.
    ///
    /// Nodes that do not answer delay the end by two seconds, however many they are.
    ///
    /// - Throws: `unknown`, or `failed` with the names of the nodes that have not begun.
    package func compact(_ name: String) async throws(AdministrationError) {
        let bucket = try cluster.requireBucket(named: name)
        try requireBeginning(await order(PeerKind.compact, bucket), name)
    }

    /// Logs the result of a request for compaction.
    ///
    /// - Throws: `failed` if a node has not begun.
    private func requireBeginning(
        _ answers: OrderAnswers,
        _ name: String
    ) throws(AdministrationError) {
        guard !answers.missing.isEmpty else {
            return cluster.logEvent(
                .info,
                .bucket,
                of: name,
                "Compaction of bucket \"\(name)\" began."
            )
        }
        let start = answers.done.isEmpty ? "No node has" : "Not all nodes have"
        let sentence =
            "\(start) begun compaction: \(answers.missingNames) did not answer, or has not loaded "
            + "the bucket"
        cluster.logEvent(.warning, .bucket, of: name, "Bucket \"\(name)\": \(sentence).")
        throw .failed("\(sentence). Check the node, then retry.")
    }

    // MARK: Ending

    /// Ends the requested compactions of the documents and of all views, on all nodes.
    ///
    /// A node that does not answer delays the end by four seconds at most.
    ///
    /// - Throws: As `cancel`.
    package func cancelAll(_ name: String) async throws(AdministrationError) {
        let bucket = try cluster.requireBucket(named: name)
        let answers = await order(PeerKind.cancelCompaction, bucket)
        // A node without an index has nothing to end.
        _ = await designDocuments.carryOut(
            viewOrders(of: bucket, isCancellation: true),
            on: answers.done
        )
        try requireEnding(answers, name)
    }

    /// Ends the requested compaction of the documents on all nodes; what is compacted stays so.
    ///
    /// - Throws: `unknown`, or `failed` with the names of the nodes that may continue.
    package func cancel(_ name: String) async throws(AdministrationError) {
        let bucket = try cluster.requireBucket(named: name)
        try requireEnding(await order(PeerKind.cancelCompaction, bucket), name)
    }

    private func requireEnding(
        _ answers: OrderAnswers,
        _ name: String
    ) throws(AdministrationError) {
        guard !answers.missing.isEmpty else { return }
        let sentence =
            "Compaction may continue: \(answers.missingNames) did not answer, or does not know the "
            + "request"
        cluster.logEvent(.warning, .bucket, of: name, "Bucket \"\(name)\": \(sentence).")
        throw .failed("\(sentence). Check the node, then retry.")
    }

    /// How far the nodes are that compact a bucket's documents by request; empty if none does.
    ///
    /// Other nodes' figures are some seconds old.
    package func compactions(ofBucket name: String) -> [CompactionWork] {
        cluster.state.nodes.compactMap { node in
            node.number == cluster.thisNode
                ? cluster.dataPlane.compaction(ofBucket: name)
                : statistics.current(of: node.number)?.bucket(named: name)?.compaction
        }
    }

    // MARK: Orders

    private func viewOrders(
        of bucket: BucketRecord,
        isCancellation: Bool
    ) -> [ViewCompactionOrder] {
        // A document without views has no index.
        bucket.designDocuments.filter { !$0.definition.views.isEmpty }.map { document in
            ViewCompactionOrder(
                bucket: bucket.settings.uuid,
                designDocument: document.name,
                isCancellation: isCancellation
            )
        }
    }

    // MARK: Purge

    /// Starts a purge of the tombstones of any age on all nodes; it continues in the background.
    ///
    /// Consumers of changes that have not read these deletions have to start over.
    ///
    /// Nodes that do not answer delay the end by two seconds, however many they are.
    ///
    /// - Throws: `unknown`, or `failed` with the names of the nodes that have not begun.
    package func purge(_ name: String) async throws(AdministrationError) {
        let bucket = try cluster.requireBucket(named: name)
        let answers = await order(PeerKind.purge, bucket)
        guard answers.missing.isEmpty else {
            let names = answers.missingNames
            // Consumers start over because of the nodes that have begun.
            cluster.logEvent(
                .warning,
                .bucket,
                of: name,
                "A purge of all tombstones of bucket \"\(name)\" was requested; \(names) did not begin."
            )
            throw .failed(
                "The purge has not begun on \(names): the bucket is being loaded there, or the node "
                    + "does not answer. Retry."
            )
        }
        cluster.logEvent(
            .info,
            .bucket,
            of: name,
            "A purge of all tombstones of bucket \"\(name)\" began."
        )
    }
}
