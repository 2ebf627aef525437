internal import Bytes
internal import Deflate
internal import NIOCore
internal import NIOHTTP1
internal import SyncWire

/// Writes answers to bytes; one for all connections of a loop, so that its memory is reused.
final class AnswerEncoder {
    /// How the receiver finds the end of the body.
    enum Framing {
        case length(Int)
        case chunked
        /// HTTP/1.0 knows no chunks.
        case untilClose
        /// There is no body: 204, 304, and JSON that answers HEAD.
        case none
    }

    /// The conditions of an answer's head, beside its status and the fields of its handler.
    struct Conditions {
        var framing: Framing
        var isGzipped = false
        /// The connection closes behind the answer.
        var isLast = false
        /// The client speaks HTTP/1.0, where a connection closes unless the answer says otherwise.
        var isVersion10 = false
    }

    private var buffer = ByteBuffer()
    private let serverLine: [UInt8]
    private var dateLine: [UInt8] = []
    private var dateSeconds = -1
    private let deflater: Deflater
    private let deflated = ByteWriter(capacity: 16)

    /// Most answers of one row, with their head.
    private static let firstBytes = 512
    /// Memory that is kept between two answers.
    private static let keptBytesMax = 64 << 10
    /// Answers are compressed on the loop that serves all clients: the fastest level still makes a quarter of JSON.
    static let level = 1

    init(serverName: String) {
        serverLine = Array("Server: \(serverName)\r\n".utf8)
        var settings = DeflateSettings.large
        settings.level = Self.level
        deflater = Deflater(.gzip, settings)
    }

    /// Sets the time of the field `Date`.
    func setDate(unixSeconds: Int) {
        guard unixSeconds != dateSeconds else { return }
        dateSeconds = unixSeconds
        dateLine = Array("Date: \(CalendarTime.httpText(unixSeconds: unixSeconds))\r\n".utf8)
    }

    /// Calls `fill` with a buffer whose memory is reused once the socket has it.
    func make(_ fill: (inout ByteBuffer) -> Void) -> ByteBuffer {
        // Without a second reference, so that filling it copies nothing.
        var filled = exchange(&buffer, with: ByteBuffer())
        // A socket still has it: a new one is small, because a client may leave many answers unread.
        if filled.modifyIfUniquelyOwned({ $0.clear() }) == nil {
            filled = ByteBufferAllocator().buffer(capacity: Self.firstBytes)
        }
        fill(&filled)
        if filled.capacity <= Self.keptBytesMax { buffer = filled }
        return filled
    }

    /// The gzipped form; borrowed until the next call.
    func gzip(_ body: ByteView) -> ByteView {
        deflated.removeAll(keepingAtMost: Self.keptBytesMax)
        deflater.reset()
        deflater.deflate(body, to: deflated)
        deflater.finish(to: deflated)
        return deflated.view
    }

    func writeHead(_ head: AnswerHead, _ conditions: Conditions, to buffer: inout ByteBuffer) {
        buffer.writeBytes(StatusLine.bytes(of: head.status))
        for (name, value) in head.headers.fields { Self.write(name, value, to: &buffer) }
        buffer.writeBytes(serverLine)
        buffer.writeBytes(dateLine)
        if conditions.isGzipped { buffer.writeStaticString("Content-Encoding: gzip\r\n") }
        switch conditions.framing {
        case .length(let length):
            buffer.writeStaticString("Content-Length: ")
            buffer.writeString(String(length))
            buffer.writeStaticString("\r\n")
        case .chunked: buffer.writeStaticString("Transfer-Encoding: chunked\r\n")
        case .untilClose, .none: break
        }
        if conditions.isLast {
            buffer.writeStaticString("Connection: close\r\n")
        } else if conditions.isVersion10 {
            buffer.writeStaticString("Connection: keep-alive\r\n")
        }
        buffer.writeStaticString("\r\n")
    }

    /// Writes one chunk of a chunked body; an empty one would be its end.
    static func writeChunk(_ bytes: ByteView, to buffer: inout ByteBuffer) {
        precondition(!bytes.isEmpty, "an empty chunk would end the body")
        buffer.writeString(String(bytes.count, radix: 16))
        buffer.writeStaticString("\r\n")
        buffer.writeBytes(bytes.buffer)
        buffer.writeStaticString("\r\n")
    }

    private static func write(_ name: String, _ value: String, to buffer: inout ByteBuffer) {
        buffer.writeString(name)
        buffer.writeStaticString(": ")
        if value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f || $0 == 0x09 }) {
            buffer.writeString(value)
        } else {
            // Values may come from documents: a line end would begin another field.
            buffer.writeBytes(value.utf8.map { $0 < 0x20 || $0 == 0x7f ? 0x20 : $0 })
        }
        buffer.writeStaticString("\r\n")
    }
}

/// Status and fields of an answer, without those that every answer has.
struct AnswerHead {
    let status: Int
    var headers: AnswerHeaders

    /// Whether no body follows such a status (RFC 9110, section 6.4.1).
    var isBodiless: Bool { status == 204 || status == 304 }
}

/// First lines of answers.
private enum StatusLine {
    /// Made once for each status.
    private static let known: [[UInt8]] = (0..<600).map { make($0) }

    static func bytes(of status: Int) -> [UInt8] {
        status >= 0 && status < known.count ? known[status] : make(status)
    }

    private static func make(_ status: Int) -> [UInt8] {
        Array("HTTP/1.1 \(status) \(phrase(status))\r\n".utf8)
    }

    /// The phrases of Go's library, as in the answers of Sync Gateway.
    private static func phrase(_ status: Int) -> String {
        switch status {
        case 404: "Not Found"
        case 409: "Conflict"
        case 431: "Request Header Fields Too Large"
        case 400...: ErrorAnswer.name(ofStatus: status)
        default: HTTPResponseStatus(statusCode: status).reasonPhrase
        }
    }
}

/// Header fields of an answer, in their order.
package struct AnswerHeaders: ExpressibleByDictionaryLiteral, Sendable {
    private(set) var fields: [(name: String, value: String)]

    package init() { fields = [] }

    package init(dictionaryLiteral elements: (String, String)...) {
        fields = elements.map { (name: $0.0, value: $0.1) }
    }

    /// Appends a field, also if there is one of that name: `Set-Cookie`.
    package mutating func add(_ name: String, _ value: String) { fields.append((name, value)) }

    /// Appends all fields of another list.
    mutating func append(_ other: AnswerHeaders) {
        if fields.isEmpty { fields = other.fields } else { fields += other.fields }
    }

    /// The first value of a field, its name compared without case; nil if there is none.
    ///
    /// Setting a value replaces all fields of that name; nil removes them.
    package subscript(name: String) -> String? {
        get { fields.first { FieldName.equal($0.name, name) }?.value }
        set {
            fields.removeAll { FieldName.equal($0.name, name) }
            if let newValue { fields.append((name, newValue)) }
        }
    }
}

/// Names of header fields.
enum FieldName {
    /// Whether the names are equal but for the case of ASCII letters.
    static func equal(_ one: String, _ other: String) -> Bool {
        let (one, other) = (one.utf8, other.utf8)
        return one.count == other.count && zip(one, other).allSatisfy { lower($0) == lower($1) }
    }

    private static func lower(_ byte: UInt8) -> UInt8 {
        byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte
    }
}
