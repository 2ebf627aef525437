internal import Vocabulary

/// A query of a view that was answered, with what is needed to check it at the end of the run.
///
/// Operations of clients are recorded when they end, so the check has to wait for that.
struct ViewObservation {
    /// The documents of a vBucket's active copy, when the query was asked.
    struct Documents {
        let log: FailoverLog
        let covered: Seqno
        /// Without deleted ones.
        var values: [String: String] = [:]
    }

    /// The documents of a bucket at one instant.
    struct Snapshot {
        let time: UInt64
        /// By vBucket; one without a confirmed active copy is missing.
        var documents: [Int: Documents] = [:]
    }

    let question: ViewQuestion
    /// The node that was asked.
    let address: String
    let askedAt: UInt64
    let vBucketCount: Int
    /// The oldest snapshot that the answer may reflect; nil: any.
    ///
    /// For a fresh answer, the visible documents when the query was sent.
    let base: Snapshot?
    /// The oldest definitions that may answer; nil: the view never changes.
    var definitions: DefinitionHistory.Bounds?
    /// Whether it was asked after the last write and the last change of a definition.
    var isFinal = false
    /// Whether the node had the agreed state of when it was asked.
    var isOfCurrentState = true
    var answeredAt: UInt64 = 0
    var answer = ViewAnswer(rows: [])
    /// vBuckets that may have lost changes meanwhile, or of which nothing is known.
    var unknown: Set<Int> = []

    /// The possible values of each document when the query read it.
    ///
    /// - Parameter operations: All writes of each key, refused ones excluded.
    /// - Returns: The values of each document that was ever written.
    func expectation(_ operations: [String: [RegisterOperation]]) -> ViewExpectation {
        var choices: [String: Set<String?>] = [:]
        let since = base?.time ?? 0
        for (number, held) in base?.documents ?? [:] {
            for (id, value) in held.values where vBucket(of: id) == number {
                choices[id] = [value]
            }
        }
        for (id, all) in operations {
            var allowed = choices[id] ?? [nil]
            let isAny = isUncertain(vBucket(of: id))
            if isAny { allowed.insert(nil) }
            for operation in all where !operation.isRead && operation.called <= answeredAt {
                let isOpen = operation.returned.map { $0 >= since } ?? true
                if isAny || isOpen { allowed.insert(operation.written) }
            }
            choices[id] = allowed
        }
        for id in choices.keys {
            let vBucket = vBucket(of: id)
            if isAbsent(vBucket) {
                choices[id] = [nil]
            } else if isUncertain(vBucket) {
                choices[id]?.insert(nil)
            }
        }
        return ViewExpectation(choices)
    }

    /// Whether documents of a vBucket may have any value that was ever written.
    private func isUncertain(_ vBucket: Int) -> Bool {
        answer.mayMissAll || answer.missing.contains(vBucket) || unknown.contains(vBucket)
            || base?.documents[vBucket] == nil
    }

    /// Whether the answer has no row of a vBucket: its index is being built.
    private func isAbsent(_ vBucket: Int) -> Bool {
        answer.unbuilt.contains(vBucket) && !answer.mayMissAll
    }

    private func vBucket(of id: String) -> Int {
        Int(VBucketID(ofKey: Array(id.utf8), count: vBucketCount).number)
    }
}

extension RegisterOperation {
    /// The value that the operation may have written; nil for a deletion and for counters, whose
    /// documents views leave out.
    fileprivate var written: String? {
        switch action {
        case .set(let value), .add(let value), .replace(let value),
            .compareAndSet(_, let value):
            String(decoding: value, as: UTF8.self)
        case .read, .remove, .increment, .found: nil
        }
    }
}
