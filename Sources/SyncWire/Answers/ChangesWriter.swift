package import Bytes

/// A row of `_changes`.
package struct ChangesRow: Equatable, Sendable {
    package let sequence: SequenceToken
    package let id: String
    /// The winner, or all leaves; none for the row of a principal that the user is.
    package let revisions: [String]
    package var isDeleted = false
    /// The channels that the document left; empty if it left none.
    package var removed: [String] = []
    /// The document as JSON; nil if it was not asked for.
    package var document: [UInt8]?

    package init(sequence: SequenceToken, id: String, revisions: [String]) {
        self.sequence = sequence
        self.id = id
        self.revisions = revisions
    }

    /// Appends the row, members in the order of Sync Gateway's.
    package func append(to output: ByteWriter) {
        output.append("{\"seq\":")
        sequence.append(to: output)
        output.append(",\"id\":")
        CanonicalJSON.append(string: id, to: output)
        if isDeleted { output.append(",\"deleted\":true") }
        if !removed.isEmpty {
            output.append(",\"removed\":")
            CanonicalJSON.append(strings: removed, to: output)
        }
        if let document {
            output.append(",\"doc\":")
            output.append(document)
        }
        output.append(",\"changes\":[")
        CanonicalJSON.appendList(revisions, to: output) { revision in
            output.append("{\"rev\":")
            CanonicalJSON.append(string: revision, to: output)
            output.append("}")
        }
        output.append("]}")
    }
}

/// Writes the rows of `_changes` with the text around them, for each feed.
///
/// - `normal` and `longpoll`: one JSON text, whose bytes clients compare (contract, section 7).
/// - `continuous`: a row a line, an empty line as heartbeat and when the client is caught up.
/// - `websocket`: messages of one JSON array each, `[]` when the client is caught up; a heartbeat is an empty
///   message.
package struct ChangesWriter {
    package static let webSocketRowsMax = 20

    private let feed: ChangesRequest.Feed
    private let output: ByteWriter
    private var rowCount = 0

    /// Writes to the answer's body, or for a WebSocket to the message, which the caller empties.
    package init(_ feed: ChangesRequest.Feed, _ output: ByteWriter) {
        self.feed = feed
        self.output = output
    }

    /// Appends the text before the first row, which a long poll sends at once.
    package func begin() {
        switch feed {
        case .normal, .longpoll: output.append("{\"results\":[\r\n")
        case .continuous: break
        case .websocket: output.append("[")
        }
    }

    package mutating func append(_ row: ChangesRow) {
        if rowCount > 0, feed != .continuous { output.append(",") }
        rowCount += 1
        row.append(to: output)
        if feed != .websocket { output.append("\n") }
    }

    /// Appends a heartbeat; a line end in all feeds but the WebSocket, where an empty message is one.
    package func heartbeat() {
        if feed != .websocket { output.append("\n") }
    }

    /// Appends the end of the answer (`normal`, `longpoll`) or of the message (`websocket`).
    ///
    /// - Parameters:
    ///   - last: The token from which the client continues.
    ///   - isNumber: For the filter `_doc_ids` of 1.4, where `last_seq` is a number.
    package mutating func end(last: SequenceToken, isNumber: Bool = false) {
        switch feed {
        case .normal, .longpoll:
            output.append("],\n\"last_seq\":")
            if isNumber {
                output.append(text: String(last.sequence))
            } else {
                output.append(text: "\"\(last)\"")
            }
            output.append("}\n")
        case .continuous: break
        case .websocket:
            output.append("]")
            rowCount = 0
        }
    }
}
