package import Bytes

/// Why a multipart body is refused.
package enum MultipartFailure: Error, Equatable, Sendable {
    /// The content type has no boundary, or one that is longer than 70 bytes or has other characters than
    /// RFC 2046 allows.
    case badBoundary
    case headersTooLarge
    /// A header of a part has no name or no colon.
    case badHeader
    case tooManyParts
    /// The body ends before its last boundary.
    case cutShort

    package var reason: String {
        switch self {
        case .badBoundary: "The Content-Type of a multipart body needs a valid boundary"
        case .headersTooLarge: "The headers of a MIME part are too large"
        case .badHeader: "A MIME part has an invalid header"
        case .tooManyParts: "The multipart body has too many parts"
        case .cutShort: "The multipart body is cut short"
        }
    }
}

/// Splits a multipart body (RFC 2046, section 5.1) that arrives in chunks of any size.
///
/// Bodies of parts are passed on as they come, so that an attachment never is in memory as a whole. The
/// meaning of the parts (which one is the document, which attachment a part is) is the caller's.
///
/// - The reader keeps at most the headers of one part, or a possible beginning of a boundary, beside the chunk.
/// - The events of a body do not depend on its chunks, except where body data is divided.
/// - A nested multipart part is body data: the caller reads it with another reader.
package final class MultipartReader {
    /// A step through the body.
    package enum Event {
        /// A part begins.
        case part(PartHeaders)
        /// Body data of the part, borrowed for the call and not empty.
        case data(ByteView)
        case partEnd
    }

    package static let boundaryBytesMax = 70
    package static let headerBytesMax = 16 << 10
    /// A document with an attachment for each part has far fewer.
    package static let partsMax = 10_000
    /// Blanks between a boundary and its line end.
    private static let paddingMax = 64

    private enum State {
        /// Before the first boundary. Can become: `headers`, `ended`.
        case preamble
        /// At the line end behind a boundary, which the headers share. Can become: `bodyStart`.
        case headers
        /// At the line end behind the headers, which an empty body shares. Can become: `body`, `headers`, `ended`.
        case bodyStart
        /// Can become: `headers`, `ended`.
        case body
        /// The last boundary was read: the rest is ignored.
        case ended
    }

    /// CRLF, two dashes and the boundary.
    private let delimiter: [UInt8]
    private let buffer = ByteWriter()
    private var state = State.preamble
    private var partCount = 0

    /// - Throws: `.badBoundary`.
    package init(boundary: String) throws(MultipartFailure) {
        guard MultipartReader.isBoundary(boundary) else { throw .badBoundary }
        delimiter = Array("\r\n--\(boundary)".utf8)
        // The first boundary needs no line end before it if the body begins with it.
        buffer.append("\r\n")
    }

    /// Whether `text` may be a boundary: 1 to 70 characters of RFC 2046, the last one not a blank.
    package static func isBoundary(_ text: String) -> Bool {
        guard 1...boundaryBytesMax ~= text.utf8.count, text.utf8.last != 0x20 else { return false }
        return text.utf8.allSatisfy { byte in
            ASCII.digit(byte) != nil || ASCII.lowercased(byte) &- UInt8(ascii: "a") < 26
                || "'()+_,-./:=? ".utf8.contains(byte)
        }
    }

    /// Whether the last boundary was read.
    package var isEnded: Bool { state == .ended }

    /// Reads the next chunk of the body and delivers the events that it completes.
    ///
    /// - Throws: `.headersTooLarge`, `.badHeader`, `.tooManyParts`; afterwards the reader is not usable.
    package func read(_ chunk: ByteView, _ deliver: (Event) -> Void) throws(MultipartFailure) {
        guard state != .ended else { return }
        buffer.append(chunk)
        var consumed = 0
        defer { buffer.removeFirst(consumed) }
        while state != .ended {
            guard let length = try step(buffer.view.dropFirst(consumed), deliver) else { break }
            consumed += length
        }
        if state == .ended { consumed = buffer.count }
    }

    /// Checks at the end of the request that the body was complete.
    ///
    /// - Throws: `.cutShort`.
    package func finish() throws(MultipartFailure) {
        guard state == .ended else { throw .cutShort }
    }

    /// Consumes a piece of `rest`; returns its length, or nil if more bytes are needed.
    ///
    /// - Throws: The failures of `read`.
    private func step(
        _ rest: ByteView,
        _ deliver: (Event) -> Void
    ) throws(MultipartFailure) -> Int? {
        switch state {
        case .ended: return nil
        case .headers:
            guard let (headers, length) = try readHeaders(rest) else { return nil }
            state = .bodyStart
            deliver(.part(headers))
            return length
        case .bodyStart:
            // The empty line of the headers may be the line end before the next boundary.
            guard let match = match(rest) else { return nil }
            guard case .boundary(let length, let isLast) = match else {
                state = .body
                return 2
            }
            deliver(.partEnd)
            return try passBoundary(length, isLast: isLast)
        case .preamble, .body: return try readBody(rest, deliver)
        }
    }

    /// - Throws: `.tooManyParts`.
    private func readBody(
        _ rest: ByteView,
        _ deliver: (Event) -> Void
    ) throws(MultipartFailure) -> Int? {
        var offset = 0
        while true {
            let carriageReturn = rest.dropFirst(offset).buffer.firstIndex(of: 0x0d)
            offset = carriageReturn.map { offset + $0 } ?? rest.count
            guard offset < rest.count else { break }
            switch match(rest.dropFirst(offset)) {
            case .boundary(let length, let isLast)?:
                passData(rest.slice(0, offset), deliver)
                if state == .body { deliver(.partEnd) }
                return offset + (try passBoundary(length, isLast: isLast))
            case .noBoundary?: offset += 1
            case nil:
                passData(rest.slice(0, offset), deliver)
                return offset > 0 ? offset : nil
            }
        }
        passData(rest, deliver)
        return offset > 0 ? offset : nil
    }

    private func passData(_ data: ByteView, _ deliver: (Event) -> Void) {
        if state == .body, !data.isEmpty { deliver(.data(data)) }
    }

    /// Changes the state behind a boundary; returns how many bytes it consumes.
    ///
    /// - Throws: `.tooManyParts`.
    private func passBoundary(_ length: Int, isLast: Bool) throws(MultipartFailure) -> Int {
        guard !isLast else {
            state = .ended
            return length
        }
        partCount += 1
        guard partCount <= MultipartReader.partsMax else { throw .tooManyParts }
        state = .headers
        return length
    }

    private enum Match {
        /// A boundary of that length, without the line end behind it.
        case boundary(length: Int, isLast: Bool)
        case noBoundary
    }

    /// Compares the front of `rest` with a boundary line; nil if more bytes are needed.
    private func match(_ rest: ByteView) -> Match? {
        let common = min(rest.count, delimiter.count)
        let isEqual = delimiter.withUnsafeBytes { delimiter in
            rest.slice(0, common).equals(ByteView(delimiter).slice(0, common))
        }
        guard isEqual else { return .noBoundary }
        var length = delimiter.count
        guard rest.count >= length + 2 else { return nil }
        let dash = UInt8(ascii: "-")
        if rest[length] == dash, rest[length + 1] == dash {
            return .boundary(length: length + 2, isLast: true)
        }
        let paddingEnd = length + MultipartReader.paddingMax
        while length < rest.count, length < paddingEnd, ASCII.isBlank(rest[length]) { length += 1 }
        if length < rest.count, rest[length] != 0x0d { return .noBoundary }
        guard rest.count >= length + 2 else { return nil }
        // A longer boundary that begins with this one is another multipart's.
        return rest[length + 1] == 0x0a ? .boundary(length: length, isLast: false) : .noBoundary
    }

    /// Reads the headers at the front of `rest`; nil if they are not complete.
    ///
    /// - Throws: `.headersTooLarge`, `.badHeader`.
    private func readHeaders(
        _ rest: ByteView
    ) throws(MultipartFailure) -> (PartHeaders, length: Int)? {
        guard let end = emptyLine(in: rest) else {
            if rest.count > MultipartReader.headerBytesMax { throw .headersTooLarge }
            return nil
        }
        guard end <= MultipartReader.headerBytesMax else { throw .headersTooLarge }
        return (try PartHeaders(rest.slice(0, end)), end)
    }

    /// Where the line end of the empty line behind the headers begins.
    private func emptyLine(in rest: ByteView) -> Int? {
        let limit = min(rest.count, MultipartReader.headerBytesMax + 4)
        var offset = 0
        while offset + 4 <= limit {
            if rest.bigEndian(at: offset, as: UInt32.self) == 0x0d0a_0d0a { return offset + 2 }
            offset += 1
        }
        return nil
    }
}
