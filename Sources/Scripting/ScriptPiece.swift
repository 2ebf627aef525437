/// A function and the items to call it with; its caller has the items themselves.
package struct ScriptJob: Hashable, Sendable {
    /// The caller's number; unique among the jobs that are not complete.
    package let number: UInt64
    /// The function's number: what is observed of a function applies to its later jobs.
    package let function: UInt32
    /// The bucket of the function's documents; the same for all jobs of a function.
    package let bucket: String
    package let itemCount: Int
    package let demand: Demand

    /// The client that waits for the results of a job.
    package enum Demand: Hashable, Sendable, CaseIterable {
        /// No client: an index, which needs all of them.
        case background
        /// A client to which the job is of no use without all of them.
        case whole
        /// A client to which each of them is of use without the others.
        case each
    }

    package init(
        number: UInt64,
        function: UInt32,
        bucket: String,
        itemCount: Int,
        demand: Demand = .background
    ) {
        precondition(itemCount > 0, "a job has items")
        self.number = number
        self.function = function
        self.bucket = bucket
        self.itemCount = itemCount
        self.demand = demand
    }

    /// Whether a client waits.
    package var isInteractive: Bool { demand != .background }
}

/// A part of a job that is sent to a worker at once.
package struct ScriptPiece: Hashable, Sendable {
    package let job: UInt64
    /// Indexes of the job's items.
    package var items: Range<Int>

    package init(job: UInt64, items: Range<Int>) {
        self.job = job
        self.items = items
    }

    /// Whether the piece is one call, so that its failure has one cause.
    package var isSingle: Bool { items.count == 1 }

    /// Removes at most `itemsMax` items from the front, and returns the piece of them.
    mutating func removePrefix(_ itemsMax: Int) -> ScriptPiece {
        var first = self
        first.items = items.prefix(itemsMax)
        items = items.dropFirst(itemsMax)
        return first
    }

    /// The parts of a piece that remain without one item.
    func without(item: Int) -> [ScriptPiece] {
        [items.lowerBound..<item, (item + 1)..<items.upperBound].filter { !$0.isEmpty }.map {
            ScriptPiece(job: job, items: $0)
        }
    }
}
