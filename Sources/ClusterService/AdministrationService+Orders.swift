internal import Seams
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

/// Orders that a request gives to several nodes.
extension AdministrationService {
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
}
