internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// The bucket to compact, by UUID: another bucket may have its name by now.
struct CompactCall: PeerPayload, Hashable {
    let uuid: String

    init(uuid: String) { self.uuid = uuid }

    init?(_ reader: inout ByteReader) {
        guard let uuid = reader.text() else { return nil }
        self.uuid = uuid
    }

    func append(to writer: ByteWriter) { writer.append(counted: uuid) }
}

/// Compaction of a bucket, on every node with a part of it.
extension AdministrationService {
    /// The nodes with a part of a bucket: those that have begun to compact it, and the others.
    private struct Beginning {
        var begun: [NodeRecord] = []
        var missing: [NodeRecord] = []
    }

    /// Starts compaction of the documents and of all views on all nodes; it continues in the
    /// background.
    ///
    /// Only nodes that have begun with the documents receive the orders for the views. If such a node
    /// has not begun with the views, because it has no indexes or they are not open, this is only
    /// logged: each node compacts its indexes by itself too.
    ///
    /// - Returns: As `compactBucket`; a node that does not answer delays the outcome by four seconds
    ///   at most.
    package func compactBucketAndViews(_ name: String) async -> BucketOutcome {
        guard let bucket = state.bucket(named: name) else { return .unknown }
        let beginning = await beginCompaction(of: bucket)
        let orders = bucket.designDocuments.filter { !$0.definition.views.isEmpty }.map {
            ViewCompactionOrder(
                bucket: bucket.settings.uuid,
                designDocument: $0.name,
                isCancellation: false
            )
        }
        let refused = await carryOut(orders, on: beginning.begun)
        for (node, documents) in refused {
            let rest = documents.count > 1 ? " and of \(documents.count - 1) more" : ""
            logEvent(
                .warning,
                .bucket,
                "Node \(node.otpNode) has not begun to compact the views of design document "
                    + "\"\(documents[0])\"\(rest) of bucket \"\(name)\": it does not answer, or its "
                    + "indexes are not open. Retry."
            )
        }
        return outcome(of: beginning, name)
    }

    /// Starts compaction of the documents on all nodes; it continues in the background.
    ///
    /// - Returns: Done if all nodes have begun; failed, with the names of the others, if not. Nodes
    ///   that do not answer delay the outcome by two seconds, however many they are.
    package func compactBucket(_ name: String) async -> BucketOutcome {
        guard let bucket = state.bucket(named: name) else { return .unknown }
        return outcome(of: await beginCompaction(of: bucket), name)
    }

    private func beginCompaction(of bucket: BucketRecord) async -> Beginning {
        let call = CompactCall(uuid: bucket.settings.uuid)
        let servers = state.servers(of: bucket)
        let others = servers.filter { $0.number != thisNode }
        var beginning = Beginning()
        for own in servers where own.number == thisNode {
            if beginCompaction(of: call.uuid) {
                beginning.begun.append(own)
            } else {
                beginning.missing.append(own)
            }
        }
        let outcomes = await send(
            others.map { NodeOrder(node: $0.number, kind: PeerKind.compact, bytes: call.bytes) }
        )
        for (node, isBegun) in zip(others, outcomes) {
            if isBegun { beginning.begun.append(node) } else { beginning.missing.append(node) }
        }
        return beginning
    }

    /// The outcome of a request for compaction; it is logged too.
    private func outcome(of beginning: Beginning, _ name: String) -> BucketOutcome {
        guard !beginning.missing.isEmpty else {
            logEvent(.info, .bucket, "Compaction of bucket \"\(name)\" began.")
            return .done
        }
        let names = beginning.missing.map(\.otpNode).joined(separator: ", ")
        let start = (beginning.begun.isEmpty ? "No node has" : "Not all nodes have") + " begun"
        let sentence = "\(start) compaction: \(names) did not answer, or has not opened the bucket"
        logEvent(.warning, .bucket, "Bucket \"\(name)\": \(sentence).")
        return .failed("\(sentence). Check the node, then retry.")
    }

    func handleCompaction() {
        calls.handleCalls(PeerKind.compact) { [weak self] _, bytes, answer in
            guard let self, let call = CompactCall(bytes: bytes) else { return answer([]) }
            answer(beginCompaction(of: call.uuid) ? NodeOrder.carriedOut : [])
        }
    }

    private func beginCompaction(of uuid: String) -> Bool {
        guard let bucket = state.buckets.first(where: { $0.settings.uuid == uuid }) else {
            return false
        }
        dataPlane.compact(bucket: bucket.settings.name)
        return true
    }
}
