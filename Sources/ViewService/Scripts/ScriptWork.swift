package import Bytes
package import Wire

/// A map or reduce function that script processes may run.
///
/// - Its number is its name in all processes of the node.
package struct ScriptFunction: Hashable, Sendable {
    package let number: UInt32
    package let use: ScriptUse
    /// The author's text.
    package let source: String
    /// Processor time of one call.
    package let timeoutMilliseconds: UInt32
}

/// Items for one function, as one frame.
package struct ScriptWork: Sendable {
    package let purpose: ScriptBatch.Purpose
    package let function: ScriptFunction
    /// The number of items.
    package let count: Int
    /// A frame of `ScriptBatchEncoder` with this function and any batch number.
    package let frame: [UInt8]

    package init(
        _ purpose: ScriptBatch.Purpose,
        _ function: ScriptFunction,
        count: Int,
        frame: [UInt8]
    ) {
        self.purpose = purpose
        self.function = function
        self.count = count
        self.frame = frame
    }

    /// Decodes the work's batch and passes it to `body`.
    func withBatch<Result>(_ body: (ScriptBatch) -> Result) -> Result {
        frame.withUnsafeBytes { bytes in
            guard
                case .frame(let frame) = ScriptFrame.next(
                    in: ByteView(bytes),
                    bytesMax: ScriptLimits.requestBytesMax
                ), case .execute(let batch) = ScriptRequest(frame)
            else { preconditionFailure("the work of a script process is a frame of a batch") }
            return body(batch)
        }
    }

    /// Appends a frame with some of the items.
    func append(_ items: Range<Int>, batch number: UInt32, to output: ByteWriter) {
        guard items.count < count else {
            output.append(frame)
            // The number is behind the length and the kind.
            output.replace(at: output.count - frame.count + 5, bigEndian: number)
            return
        }
        withBatch { batch in
            var encoder = ScriptBatchEncoder(
                purpose,
                functions: [function.number],
                batch: number,
                to: output
            )
            for (index, item) in batch.items().enumerated() where items.contains(index) {
                encoder.append(stamp: item.stamp, first: item.first, second: item.second)
            }
            encoder.finish()
        }
    }
}

/// What became of one work.
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
            /// The pool was stopped: nothing is stated about the function.
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
    /// Whether the pool was stopped before the work was answered: the results are of no use.
    package var isStopped: Bool { failures.first?.kind == .stopped }
    /// What the function logged, for its author: these lines may contain parts of documents, so they
    /// are not written to the node's log.
    package internal(set) var logs: [String] = []
    /// Logged lines that were omitted.
    package internal(set) var droppedLogs = 0

    /// Calls `body` with the item, key and value of each row; for the results of a map function.
    ///
    /// The rows of an item are next to each other.
    package func forEachRow(_ body: (_ item: Int, _ key: ByteView, _ value: ByteView) -> Void) {
        for piece in pieces {
            piece.bytes.withUnsafeBytes { bytes in
                guard var rows = ScriptRows(ByteView(bytes)) else {
                    preconditionFailure("pieces are checked when they arrive")
                }
                while let row = rows.next() {
                    body(piece.firstItem + Int(row.item), row.key, row.value)
                }
            }
        }
    }

    /// Calls `body` with the item and text of each reduction; for the results of a reduce function.
    package func forEachReduction(_ body: (_ item: Int, _ text: ByteView) -> Void) {
        for piece in pieces {
            piece.bytes.withUnsafeBytes { bytes in
                guard var reductions = ScriptReductions(ByteView(bytes)) else {
                    preconditionFailure("pieces are checked when they arrive")
                }
                while let reduction = reductions.next() {
                    body(piece.firstItem + Int(reduction.item), reduction.value)
                }
            }
        }
    }
}
