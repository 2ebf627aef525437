package import Bytes
internal import JSON

/// Reads the body of `_bulk_docs`, `{"docs":[...],"new_edits":false?}`, a document at a time.
///
/// A body has up to 100 MB, so that it is never in memory as a whole: the reader keeps one document. A document
/// is divided off by its brackets and strings only; `DocumentBody` then decides whether it is one.
///
/// - The documents do not depend on how the body is divided into chunks.
/// - `new_edits` may come behind `docs`, as Couchbase Lite sends it: it is known only at the end.
package final class BulkDocumentsReader {
    private enum State {
        /// Before the body's brace. Can become: `firstName`.
        case start
        /// Before a name or the last brace. Can become: `inName`, `ended`.
        case firstName
        /// A comma was read. Can become: `inName`.
        case nextName
        /// Can become: `colon`.
        case inName
        /// Can become: `valueStart`.
        case colon
        /// Can become: `value`, `firstDocument`.
        case valueStart
        /// In the value of another member than `docs`. Can become: `nextName`, `ended`.
        case value
        /// Before a document or the end of the array. Can become: `inDocument`, `memberEnd`.
        case firstDocument
        /// A comma was read. Can become: `inDocument`.
        case nextDocument
        /// Can become: `documentEnd`.
        case inDocument
        /// Can become: `nextDocument`, `memberEnd`.
        case documentEnd
        /// Can become: `nextName`, `ended`.
        case memberEnd
        case ended
    }

    /// Members beside `docs` are small.
    private static let memberBytesMax = 64 << 10

    private var state = State.start
    /// The name, value or document that is being read.
    private let token = ByteWriter()
    private var depth = 0
    private var isInString = false
    private var isEscaped = false
    private var totalCount = 0
    private var name = ""
    private var hasDocuments = false
    private var newEditsValue: Bool?

    package init() {}

    /// The value of `new_edits` so far, true if it was not sent.
    package var newEdits: Bool { newEditsValue ?? true }

    /// Whether `newEdits` is final: it was sent, or the body is over.
    package var knowsNewEdits: Bool { newEditsValue != nil || state == .ended }

    /// Reads the next chunk and passes on the documents that it completes, borrowed for the call.
    ///
    /// - Throws: `.badJSON`, `.documentTooLarge`, `.tooMany("docs")` for a body above
    ///   `SyncLimits.bulkBytesMax`; afterwards the reader is not usable.
    package func read(_ chunk: ByteView, _ deliver: (ByteView) -> Void) throws(RequestRefusal) {
        totalCount += chunk.count
        guard totalCount <= SyncLimits.bulkBytesMax else { throw .tooMany("docs") }
        var offset = 0
        while offset < chunk.count {
            switch state {
            case .inName, .value, .inDocument:
                offset += try appendPlain(chunk.dropFirst(offset))
                guard offset < chunk.count else { return }
                try continueToken(chunk[offset], deliver)
            default:
                if !JSONScanner.isBlank(chunk[offset]) { try begin(chunk[offset]) }
            }
            offset += 1
        }
    }

    /// Appends the bytes at the front that are no brackets, quotes, backslashes and commas; returns how many.
    ///
    /// - Throws: `.badJSON`, `.documentTooLarge`.
    private func appendPlain(_ rest: ByteView) throws(RequestRefusal) -> Int {
        if isEscaped { return 0 }
        let count = rest.buffer.firstIndex { byte in
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "{"), UInt8(ascii: "}"),
                UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: ","):
                true
            default: false
            }
        }
        let plain = rest.slice(0, count ?? rest.count)
        token.append(plain)
        try checkLength()
        return plain.count
    }

    /// - Throws: `.badJSON`, `.documentTooLarge`.
    private func checkLength() throws(RequestRefusal) {
        let isDocument = state == .inDocument
        let limit =
            isDocument ? SyncLimits.documentBytesMax : BulkDocumentsReader.memberBytesMax
        guard token.count <= limit else { throw isDocument ? .documentTooLarge : .badJSON }
    }

    /// Checks at the end of the request that the body was complete.
    ///
    /// - Throws: `.badJSON`, or `.missingDocuments` if there was no array `docs`.
    package func finish() throws(RequestRefusal) {
        guard state == .ended else { throw .badJSON }
        guard hasDocuments else { throw .missingDocuments }
    }

    /// Reads a byte between tokens.
    ///
    /// - Throws: `.badJSON`, `.missingDocuments`.
    private func begin(_ byte: UInt8) throws(RequestRefusal) {
        switch (state, byte) {
        case (.start, UInt8(ascii: "{")): state = .firstName
        case (.firstName, UInt8(ascii: "\"")), (.nextName, UInt8(ascii: "\"")):
            beginToken(byte, .inName)
        case (.firstName, UInt8(ascii: "}")), (.memberEnd, UInt8(ascii: "}")): state = .ended
        case (.memberEnd, UInt8(ascii: ",")): state = .nextName
        case (.colon, UInt8(ascii: ":")): state = .valueStart
        case (.valueStart, _) where name != "docs": beginToken(byte, .value)
        case (.valueStart, _):
            guard byte == UInt8(ascii: "["), !hasDocuments else { throw .missingDocuments }
            hasDocuments = true
            state = .firstDocument
        case (.firstDocument, UInt8(ascii: "{")), (.nextDocument, UInt8(ascii: "{")):
            beginToken(byte, .inDocument)
        case (.firstDocument, UInt8(ascii: "]")), (.documentEnd, UInt8(ascii: "]")):
            state = .memberEnd
        case (.documentEnd, UInt8(ascii: ",")): state = .nextDocument
        default: throw .badJSON
        }
    }

    private func beginToken(_ byte: UInt8, _ kind: State) {
        token.removeAll(keepingAtMost: 1 << 20)
        (depth, isInString, isEscaped) = (0, false, false)
        state = kind
        append(byte)
    }

    /// Reads a byte of a token.
    ///
    /// - Throws: `.badJSON`, `.documentTooLarge`.
    private func continueToken(
        _ byte: UInt8,
        _ deliver: (ByteView) -> Void
    ) throws(RequestRefusal) {
        let isSeparator = byte == UInt8(ascii: ",") || byte == UInt8(ascii: "}")
        if state == .value, isSeparator, depth == 0, !isInString {
            // A value ends only with what follows it: a number has no last byte of its own.
            try readMember()
            state = .memberEnd
            return try begin(byte)
        }
        append(byte)
        try checkLength()
        guard depth >= 0 else { throw .badJSON }
        guard depth == 0, !isInString, state != .value else { return }
        if state == .inDocument {
            state = .documentEnd
            deliver(token.view)
        } else {
            guard let text = JSONValue.parse(token.view)?.string else { throw .badJSON }
            name = text
            state = .colon
        }
    }

    /// Appends a byte to the token, and follows brackets and strings.
    private func append(_ byte: UInt8) {
        token.append(byte)
        guard !isEscaped else {
            isEscaped = false
            return
        }
        switch byte {
        case UInt8(ascii: "\\") where isInString: isEscaped = true
        case UInt8(ascii: "\""): isInString.toggle()
        case UInt8(ascii: "{") where !isInString, UInt8(ascii: "[") where !isInString: depth += 1
        case UInt8(ascii: "}") where !isInString, UInt8(ascii: "]") where !isInString: depth -= 1
        default: break
        }
    }

    /// - Throws: `.badJSON`.
    private func readMember() throws(RequestRefusal) {
        guard let value = JSONValue.parse(token.view) else { throw .badJSON }
        if name == "new_edits" { newEditsValue = value.bool ?? true }
    }
}
