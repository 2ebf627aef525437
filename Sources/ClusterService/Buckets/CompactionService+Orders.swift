internal import Bytes
internal import Orchestration
internal import Vocabulary

/// The bucket of an order to compact, to end that, or to purge, by UUID: another bucket may have its name
/// by now.
struct BucketOrder: ExtensibleFields, Hashable {
    var uuid = ""

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&uuid, "bucket")
    }
}

/// Orders that a request gives to several nodes.
extension CompactionService {
    /// The nodes with a part of a bucket: those that have carried an order out, and the others.
    struct OrderAnswers {
        var done: [NodeRecord] = []
        var missing: [NodeRecord] = []

        /// The names of the others.
        var missingNames: String { missing.map(\.otpNode).joined(separator: ", ") }
    }

    /// Has all nodes with a part of a bucket carry out an order of this kind.
    func order(_ kind: UInt16, _ bucket: BucketRecord) async -> OrderAnswers {
        let (call, this) = (BucketOrder(uuid: bucket.settings.uuid), cluster.thisNode)
        let servers = cluster.state.servers(of: bucket)
        // This node's first: it does not wait for the others.
        let own = servers.contains { $0.number == this } && carryOut(kind, call)
        var outcomes = await cluster.send(
            servers.filter { $0.number != this }.map { node in
                NodeOrder(node: node.number, kind: kind, bytes: call.encoded)
            }
        )[...]
        var answers = OrderAnswers()
        for node in servers {
            let isDone = node.number == this ? own : outcomes.removeFirst()
            if isDone { answers.done.append(node) } else { answers.missing.append(node) }
        }
        return answers
    }

    func handleBucketOrders() {
        for kind in [PeerKind.compact, PeerKind.cancelCompaction, PeerKind.purge] {
            cluster.calls.handleCalls(kind) { [weak self] _, bytes, answer in
                guard let self, let call = BucketOrder(message: bytes) else { return answer([]) }
                answer(carryOut(kind, call) ? NodeOrder.carriedOut : [])
            }
        }
    }

    /// Carries out an order on this node; returns whether it could.
    private func carryOut(_ kind: UInt16, _ call: BucketOrder) -> Bool {
        guard let bucket = cluster.state.buckets.first(where: { $0.settings.uuid == call.uuid })
        else {
            return false
        }
        let name = bucket.settings.name
        switch kind {
        case PeerKind.compact: return cluster.dataPlane.compact(bucket: name)
        case PeerKind.purge: return cluster.dataPlane.purgeTombstones(ofBucket: name)
        default:
            cluster.dataPlane.cancelCompaction(ofBucket: name)
            return true
        }
    }
}
