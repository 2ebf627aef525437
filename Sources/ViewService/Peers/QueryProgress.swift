internal import Indexing

/// The replies of one query at another node; its coordinator and its responder count them alike.
///
/// A query ends once: by its last reply, by its cancellation, or with its stream. Nothing follows the end.
struct QueryProgress: Sendable {
    enum Admission {
        case accepted
        /// The query has ended.
        case ignored
        /// The query has no credit for it.
        case exceeding
    }

    /// Batches that the responder may send.
    private var credit = RowMerge.creditMax
    private(set) var hasEnded = false

    /// Counts a reply.
    mutating func admit(_ reply: QueryReply) -> Admission {
        guard !hasEnded else { return .ignored }
        if reply.isBatch {
            guard credit > 0 else { return .exceeding }
            credit -= 1
        }
        hasEnded = reply.isLast
        return .accepted
    }

    /// Counts a credit; returns false if there is no batch to which it could belong.
    mutating func addCredit() -> Bool {
        guard !hasEnded, credit < RowMerge.creditMax else { return false }
        credit += 1
        return true
    }

    /// Returns whether the query has not ended before.
    mutating func end() -> Bool { !exchange(&hasEnded, with: true) }
}

extension QueryReply {
    fileprivate var isBatch: Bool {
        switch self {
        case .rows, .groups: true
        case .start, .end, .failed, .moved, .notReady: false
        }
    }

    /// Whether the responder sends nothing after it.
    var isLast: Bool {
        switch self {
        case .start, .rows, .groups: false
        case .end, .failed, .moved, .notReady: true
        }
    }
}
