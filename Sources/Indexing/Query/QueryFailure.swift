package import Vocabulary

/// Missing rows of a query's answer and their cause: an entry of its `errors`.
package struct QueryFailure: Equatable, Sendable {
    /// The node that could not answer; nil for what concerns no node.
    package let node: NodeNumber?
    /// The vBuckets whose rows are missing or incomplete.
    package let vBuckets: [VBucketID]
    package let cause: Cause

    package init(node: NodeNumber?, vBuckets: [VBucketID], cause: Cause) {
        self.node = node
        self.vBuckets = vBuckets
        self.cause = cause
    }

    package enum Cause: Equatable, Sendable {
        /// No node serves them.
        case notServed
        /// The connection to the node was lost: the text says why.
        case lost(String)
        /// The node did not start in time.
        case timedOut
        /// They moved to other nodes during the query, or again and again before it; or the node may
        /// not serve them at present.
        case moved
        /// The index does not exist there yet.
        case notBuilt
        /// The index is being built: the answer has the rows of the node's other vBuckets.
        case building(percent: Int)
        /// The node's own error.
        case failed(String)
        /// The node violated the protocol.
        case invalid(String)
    }

    /// The sentence for the client.
    package var reason: String {
        switch cause {
        case .notServed: "No node serves \(names)."
        case .lost(let why):
            "The connection to the node was lost: \(why). Rows of \(names) are missing."
        case .timedOut: "The node did not answer in time. Rows of \(names) are missing."
        case .moved:
            "Rows of \(names) are missing: they moved to another node, or no node confirmed that it"
                + " serves them. Retry the query."
        case .notBuilt: "The index is not built yet. Rows of \(names) are missing."
        case .building(let percent):
            "The index is being built: \(percent) %. Rows of \(names) are missing."
        case .failed(let why): why
        case .invalid(let why):
            "The node sent an invalid reply: \(why) Rows of \(names) are missing."
        }
    }

    /// The vBuckets with runs of numbers joined: "vBuckets 0-3, 7".
    private var names: String {
        var runs: [(first: UInt16, last: UInt16)] = []
        for number in vBuckets.map(\.number).sorted() {
            if let run = runs.last, run.last + 1 == number {
                runs[runs.count - 1].last = number
            } else {
                runs.append((number, number))
            }
        }
        let texts = runs.map { $0.first == $0.last ? "\($0.first)" : "\($0.first)-\($0.last)" }
        return (vBuckets.count == 1 ? "vBucket " : "vBuckets ") + texts.joined(separator: ", ")
    }
}
