internal import Bytes
internal import Credentials
internal import Deflate
internal import Revisions
internal import SyncService
internal import SyncWire

/// A content of an attachment that arrives: its bytes so far, and their digests.
struct ReceivedContent {
    let bytes = ByteWriter()
    private var digest = StreamedDigest()

    /// - Throws: `Refusal` 413.
    mutating func append(_ more: ByteView) throws(Refusal) {
        let bytesMax = SyncLimits.attachmentBytesMax
        guard bytes.count + more.count <= bytesMax else {
            throw Refusal(413, "The attachment or document is larger than \(bytesMax >> 20) MB")
        }
        bytes.append(more)
        digest.append(more)
    }

    /// The names by which a document may refer to the content.
    var name: AttachmentParts.Part {
        let (md5, sha1) = digest.digests
        return AttachmentParts.Part(
            sha1: "sha1-" + Self.base64(sha1),
            md5: "md5-" + Self.base64(md5),
            length: bytes.count
        )
    }

    private static func base64(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.withUnsafeBytes { Base64.encode(ByteView($0)) }, as: UTF8.self)
    }
}

/// A MIME part that has arrived.
struct ReceivedPart {
    let headers: PartHeaders
    var content: ReceivedContent

    /// The text of a part that is a document.
    ///
    /// - Throws: `Refusal` 415 for another type or encoding, 400 and 413 for damaged and too large gzip.
    func document() throws(Refusal) -> ByteWriter {
        let type = headers["Content-Type"] ?? ""
        guard type.isEmpty || type.hasPrefix("application/json") else { throw .contentType(type) }
        switch headers["Content-Encoding"] ?? "" {
        case "": return content.bytes
        case "gzip": return try inflated()
        default: throw Refusal(415, "Unsupported Content-Encoding; use gzip")
        }
    }

    private func inflated() throws(Refusal) -> ByteWriter {
        let inflater = Inflater(.gzip)
        let text = ByteWriter()
        do throws(InflateFailure) {
            try content.bytes.withView { (bytes) throws(InflateFailure) in
                var rest = bytes
                while !inflater.isAtEnd, text.count <= SyncLimits.documentBytesMax {
                    let before = text.count
                    let used = try inflater.inflate(rest, to: text, atMost: 64 << 10)
                    rest = rest.dropFirst(used)
                    if used == 0, text.count == before { break }
                }
            }
        } catch {
            throw Refusal(RequestRefusal.badJSON)
        }
        guard inflater.isAtEnd else {
            throw Refusal(
                text.count > SyncLimits.documentBytesMax
                    ? RequestRefusal.documentTooLarge : .badJSON
            )
        }
        return text
    }
}

/// The parts of a multipart body, which a procedure reads one by one.
///
/// One part is in memory, with those that arrived with its end.
final class PartStream {
    private let reader: MultipartReader
    private let body: BodyStream
    private var open: ReceivedPart?
    private var finished: [ReceivedPart] = []
    private var refusal: Refusal?

    /// - Throws: `Refusal` 400 if the type has no valid boundary.
    init(_ type: ContentType, _ body: BodyStream) throws(Refusal) {
        do {
            reader = try type.multipartReader()
        } catch {
            throw Refusal(.badMultipart(error))
        }
        self.body = body
    }

    /// The next part; nil behind the last one.
    ///
    /// - Throws: `Refusal` 400 if the body is invalid or incomplete, 413.
    func next() async throws(Refusal) -> ReceivedPart? {
        while finished.isEmpty {
            guard let chunk = try await body.next() else {
                do {
                    try reader.finish()
                } catch {
                    throw Refusal(.badMultipart(error))
                }
                return nil
            }
            do {
                try chunk.withView { (chunk) throws(MultipartFailure) in
                    try reader.read(chunk) { receive($0) }
                }
            } catch {
                throw Refusal(.badMultipart(error))
            }
            if let refusal { throw refusal }
            let kept = finished.reduce(open?.content.bytes.count ?? 0) {
                $0 + $1.content.bytes.count
            }
            try body.keep(kept)
        }
        return finished.removeFirst()
    }

    private func receive(_ event: MultipartReader.Event) {
        switch event {
        case .part(let headers):
            open = ReceivedPart(headers: headers, content: ReceivedContent())
        case .data(let bytes):
            do {
                try open?.content.append(bytes)
            } catch {
                refusal = error
            }
        case .partEnd:
            if let part = open { finished.append(part) }
            open = nil
        }
    }
}
