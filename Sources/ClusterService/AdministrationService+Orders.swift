internal import Bytes
internal import Orchestration
internal import Vocabulary

/// An order of one node to another one, and where it goes.
struct NodeOrder: Sendable {
    let node: NodeNumber
    let kind: UInt16
    let bytes: [UInt8]

    /// The answer of a node that has carried an order out.
    ///
    /// A node that has not answers nothing.
    static let carriedOut: [UInt8] = [1]
}

/// The bucket of an order to compact, to end that, or to purge, by UUID: another bucket may have its name
/// by now.
struct BucketOrder: ExtensibleFields, Hashable {
    var uuid = ""

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&uuid, "bucket")
    }
}

/// Orders that a request gives to several nodes.
extension AdministrationService {
    /// The nodes with a part of a bucket: those that have carried an order out, and the others.
    struct OrderAnswers {
        var done: [NodeRecord] = []
        var missing: [NodeRecord] = []

        /// The names of the others.
        var missingNames: String { missing.map(\.otpNode).joined(separator: ", ") }
    }

    /// A node answers in milliseconds unless it is down, or its network is slow: a request waits no
    /// longer for it.
    private static var orderTimeoutNanoseconds: UInt64 { 2_000_000_000 }

    /// Sends orders to other nodes, all at once, and waits at most two seconds.
    ///
    /// - Returns: For each order, whether the node has carried it out. A node that did not answer in
    ///   time may carry it out later.
    func send(_ orders: [NodeOrder]) async -> [Bool] {
        await withTaskGroup(of: (Int, Bool).self) { group in
            for (place, order) in orders.enumerated() {
                group.addTask { [calls] in  // tidy:allow a child of the request's task
                    let result = await calls.call(
                        order.kind,
                        order.bytes,
                        to: order.node,
                        timeoutNanoseconds: Self.orderTimeoutNanoseconds
                    )
                    return (place, result == .success(NodeOrder.carriedOut))
                }
            }
            var outcomes = [Bool](repeating: false, count: orders.count)
            for await (place, isCarriedOut) in group { outcomes[place] = isCarriedOut }
            return outcomes
        }
    }

    /// Has all nodes with a part of a bucket carry out an order of this kind.
    func order(_ kind: UInt16, _ bucket: BucketRecord) async -> OrderAnswers {
        let (call, this) = (BucketOrder(uuid: bucket.settings.uuid), thisNode)
        let servers = state.servers(of: bucket)
        // This node's first: it does not wait for the others.
        let own = servers.contains { $0.number == this } && carryOut(kind, call)
        var outcomes = await send(
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
            calls.handleCalls(kind) { [weak self] _, bytes, answer in
                guard let self, let call = BucketOrder(message: bytes) else { return answer([]) }
                answer(carryOut(kind, call) ? NodeOrder.carriedOut : [])
            }
        }
    }

    /// Carries out an order on this node; returns whether it could.
    private func carryOut(_ kind: UInt16, _ call: BucketOrder) -> Bool {
        guard let bucket = state.buckets.first(where: { $0.settings.uuid == call.uuid }) else {
            return false
        }
        let name = bucket.settings.name
        switch kind {
        case PeerKind.compact: return dataPlane.compact(bucket: name)
        case PeerKind.purge: return dataPlane.purgeTombstones(ofBucket: name)
        default:
            dataPlane.cancelCompaction(ofBucket: name)
            return true
        }
    }
}
