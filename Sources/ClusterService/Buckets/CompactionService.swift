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
    /// - Returns: As `compact`; a node that does not answer delays the outcome by four seconds
    ///   at most.
    package func compactAll(_ name: String) async -> BucketOutcome {
        guard let bucket = cluster.state.bucket(named: name) else { return .unknown }
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
        return outcome(ofBeginning: answers, name)
    }

    /// Starts compaction of the documents on all nodes; it continues in the background.
    ///
    /// - Returns: Done if all nodes have begun; failed, with the names of the others, if not. Nodes
    ///   that do not answer delay the outcome by two seconds, however many they are.
    package func compact(_ name: String) async -> BucketOutcome {
        guard let bucket = cluster.state.bucket(named: name) else { return .unknown }
        return outcome(ofBeginning: await order(PeerKind.compact, bucket), name)
    }

    /// The outcome of a request for compaction; it is logged too.
    private func outcome(ofBeginning answers: OrderAnswers, _ name: String) -> BucketOutcome {
        guard !answers.missing.isEmpty else {
            cluster.logEvent(.info, .bucket, of: name, "Compaction of bucket \"\(name)\" began.")
            return .done
        }
        let start = answers.done.isEmpty ? "No node has" : "Not all nodes have"
        let sentence =
            "\(start) begun compaction: \(answers.missingNames) did not answer, or has not loaded "
            + "the bucket"
        cluster.logEvent(.warning, .bucket, of: name, "Bucket \"\(name)\": \(sentence).")
        return .failed("\(sentence). Check the node, then retry.")
    }

    // MARK: Ending

    /// Ends the requested compactions of the documents and of all views, on all nodes.
    ///
    /// - Returns: As `cancel`; a node that does not answer delays the outcome by four
    ///   seconds at most.
    package func cancelAll(_ name: String) async -> BucketOutcome {
        guard let bucket = cluster.state.bucket(named: name) else { return .unknown }
        let answers = await order(PeerKind.cancelCompaction, bucket)
        // A node without an index has nothing to end.
        _ = await designDocuments.carryOut(
            viewOrders(of: bucket, isCancellation: true),
            on: answers.done
        )
        return outcome(ofEnding: answers, name)
    }

    /// Ends the requested compaction of the documents on all nodes; what is compacted stays so.
    ///
    /// - Returns: Done if no node continues; failed, with the names of the nodes that may, if not.
    package func cancel(_ name: String) async -> BucketOutcome {
        guard let bucket = cluster.state.bucket(named: name) else { return .unknown }
        return outcome(ofEnding: await order(PeerKind.cancelCompaction, bucket), name)
    }

    private func outcome(ofEnding answers: OrderAnswers, _ name: String) -> BucketOutcome {
        guard !answers.missing.isEmpty else { return .done }
        let sentence =
            "Compaction may continue: \(answers.missingNames) did not answer, or does not know the "
            + "request"
        cluster.logEvent(.warning, .bucket, of: name, "Bucket \"\(name)\": \(sentence).")
        return .failed("\(sentence). Check the node, then retry.")
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
    /// - Returns: Done if all nodes have begun, else which have not. Nodes that do not answer delay the
    ///   outcome by two seconds, however many they are.
    package func purge(_ name: String) async -> BucketOutcome {
        guard let bucket = cluster.state.bucket(named: name) else { return .unknown }
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
            return .failed(
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
        return .done
    }
}
