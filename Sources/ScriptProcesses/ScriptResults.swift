package import Bytes
package import Wire

/// The results, failures and logs of one work.
package struct ScriptResults: Sendable {
    /// Rows or reductions in the format of the frames, whose item numbers begin at `firstItem`.
    package struct Piece: Sendable {
        package let firstItem: Int
        package let bytes: [UInt8]
    }

    /// An item without a result.
    package struct Failure: Sendable {
        package enum Kind: Hashable, Sendable {
            case problem(ScriptProblem.Reason)
            /// The call ends script processes.
            case endedProcess
            case timedOut
            case invalidReply
            /// The call was not made, because calls before it failed in succession.
            case abandoned
            /// The pool was stopped, or the function forgotten: nothing is stated about the function.
            case stopped
        }

        package let item: Int
        package let kind: Kind
        /// The line of the author's text, from 1 on; 0 if unknown.
        package let line: UInt32
        /// For the author.
        package let text: String
    }

    package internal(set) var pieces: [Piece] = []
    package internal(set) var failures: [Failure] = []
    /// Whether some items have no result, because calls of the function failed in succession, or
    /// because one failure makes a client's work useless; the failures state which.
    ///
    /// Of a sync function, each item without a result has a failure.
    package internal(set) var isAbandoned = false
    /// Whether the pool was stopped, or the function forgotten, before the work was answered: the results
    /// are of no use.
    package var isStopped: Bool { failures.first?.kind == .stopped }
    /// Lines that the function logged, for its author: they may contain parts of documents, so they
    /// are not written to the log.
    package internal(set) var logs: [String] = []
    /// Logged lines that were omitted.
    package internal(set) var droppedLogs = 0

    /// The results of no items.
    package init() {}

    /// Calls `body` with the item and text of each reduction; for the results of a reduce function.
    package func forEachReduction(_ body: (_ item: Int, _ text: ByteView) -> Void) {
        for piece in pieces {
            piece.bytes.withUnsafeBytes { bytes in
                guard var reductions = ScriptSection<ScriptReduction>(ByteView(bytes)) else {
                    preconditionFailure("pieces are checked when they arrive")
                }
                while let reduction = reductions.next() {
                    body(piece.firstItem + Int(reduction.item), reduction.value)
                }
            }
        }
    }
}

extension ScriptResults.Failure {
    init(abandoned item: Int) {
        let text =
            "The function was not called: calls before failed in succession. Correct the function."
        self.init(item: item, kind: .abandoned, line: 0, text: text)
    }
}

extension ScriptResults {
    /// A failure of each item: the pool has stopped, or the function was forgotten, before the work was
    /// answered.
    init(stoppedBefore work: ScriptWork) {
        failures = (0..<work.count).map { item in
            let text = "The function was removed, or its process is stopping."
            return Failure(item: item, kind: .stopped, line: 0, text: text)
        }
    }

    /// A failure of each item: no process can be started.
    init(withoutProcess work: ScriptWork) {
        failures = (0..<work.count).map { item in
            let text = "No script process can be started. The log states the error."
            return Failure(item: item, kind: .endedProcess, line: 0, text: text)
        }
    }

    mutating func add(_ other: ScriptResults) {
        pieces += other.pieces
        failures += other.failures
        droppedLogs += other.droppedLogs
        for line in other.logs { addLog(line, dropped: 0) }
    }

    mutating func addLog(_ line: String, dropped: Int) {
        droppedLogs += dropped
        if logs.count < ScriptLimits.logLinesMax { logs.append(line) } else { droppedLogs += 1 }
    }
}
