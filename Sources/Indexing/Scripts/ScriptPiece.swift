/// Documents and the functions to call with each of them; its caller has the documents themselves.
package struct ScriptJob: Hashable, Sendable {
    /// The caller's number; unique among the jobs that are not complete.
    package let number: UInt64
    package let functionCount: Int
    package let itemCount: Int

    package init(number: UInt64, functionCount: Int, itemCount: Int) {
        precondition(functionCount > 0 && itemCount > 0, "a job has functions and items")
        self.number = number
        self.functionCount = functionCount
        self.itemCount = itemCount
    }
}

/// A part of a job that is sent to a worker at once: these functions, for these items.
package struct ScriptPiece: Hashable, Sendable {
    package let job: UInt64
    /// Indexes of the job's functions, which the worker calls in this order.
    package var functions: Range<Int>
    /// Indexes of the job's items.
    package var items: Range<Int>

    package init(job: UInt64, functions: Range<Int>, items: Range<Int>) {
        self.job = job
        self.functions = functions
        self.items = items
    }

    /// Whether the piece is one call, so that its failure has one cause.
    package var isSingle: Bool { functions.count == 1 && items.count == 1 }

    /// Two parts of a piece that is no single call: by functions first, then by items.
    var halves: [ScriptPiece] {
        var (first, second) = (self, self)
        if functions.count > 1 {
            let middle = functions.lowerBound + functions.count / 2
            first.functions = functions.lowerBound..<middle
            second.functions = middle..<functions.upperBound
        } else {
            let middle = items.lowerBound + items.count / 2
            first.items = items.lowerBound..<middle
            second.items = middle..<items.upperBound
        }
        return [first, second]
    }

    /// The piece with the first function only.
    var ofFirstFunction: ScriptPiece {
        var piece = self
        piece.functions = functions.prefix(1)
        return piece
    }

    /// The piece without its first function; nil if that is all of it.
    var withoutFirstFunction: ScriptPiece? {
        guard functions.count > 1 else { return nil }
        var piece = self
        piece.functions = functions.dropFirst()
        return piece
    }

    /// The parts of a piece of one function that remain without one item.
    func without(item: Int) -> [ScriptPiece] {
        [items.lowerBound..<item, (item + 1)..<items.upperBound].filter { !$0.isEmpty }.map {
            ScriptPiece(job: job, functions: functions, items: $0)
        }
    }
}
