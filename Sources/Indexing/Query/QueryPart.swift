internal import Vocabulary

/// One node's part of one attempt of a query.
struct QueryPart: Sendable {
    let node: NodeNumber
    /// In ascending order.
    let vBuckets: [VBucketID]
    var state = State.asked

    enum State: Equatable, Sendable {
        /// The request was sent. Next: `started`, `unreachable` or `failed`.
        case asked
        /// Its rows follow. Next: `ended` or `failed`.
        case started(QueryStart)
        /// The connection was lost before it started; a newer map may name another node. Next:
        /// `failed`, or another attempt.
        case unreachable(String)
        /// All its rows are here. Final.
        case ended(QueryStart)
        /// Rows are missing. Final.
        case failed
        /// Rows are missing because the merge ended its stream. Final; it is cancelled when the query
        /// is closed.
        case disordered
    }

    /// Whether the node still works for the query.
    var isActive: Bool {
        switch state {
        case .asked, .started: true
        case .unreachable, .ended, .failed, .disordered: false
        }
    }

    /// The node's `QueryStart`; nil if the node has not started or has failed.
    var start: QueryStart? {
        switch state {
        case .started(let start), .ended(let start): start
        case .asked, .unreachable, .failed, .disordered: nil
        }
    }

    func failure(_ cause: QueryFailure.Cause) -> QueryFailure {
        QueryFailure(node: node, vBuckets: vBuckets, cause: cause)
    }
}
