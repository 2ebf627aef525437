internal import Bytes
internal import Deflate
internal import JSON
internal import Revisions
internal import SyncService
internal import SyncWire

/// Writes revisions into an answer, with the contents of attachments that are asked for.
///
/// Contents are read and written in pieces, while the client reads them.
struct RevisionWriter {
    /// Larger contents are MIME parts of their own, as in Sync Gateway.
    static let inlineBytesMax = 200
    /// Shorter JSON is not compressed.
    static let compressedBytesMin = 300
    static let pieceBytes = 256 << 10

    let call: RouteCall
    /// Whether JSON parts are gzipped, for clients that decode parts but no whole answers.
    var compressesParts = false

    /// The document as JSON, contents as base64.
    func json(_ revision: ReadRevision) async -> ByteWriter {
        await text(of: revision, inlineBytesMax: .max).json
    }

    /// Writes the parts of one document: its JSON, and contents above 200 bytes.
    ///
    /// - Throws: `Refusal` if the client is gone or a content was removed meanwhile.
    func write(_ revision: ReadRevision, to parts: inout MultipartWriter) async throws(Refusal) {
        let (json, following) = await text(of: revision, inlineBytesMax: Self.inlineBytesMax)
        let output = ByteWriter(capacity: json.count + 256)
        append(json, .document, to: &parts, output: output)
        call.exchange.write(output)
        for attachment in following {
            output.removeAll()
            // Sync Gateway names no encoding here: the document does, and the content stays encoded.
            parts.beginPart(
                .attachment(attachment.name, contentType: attachment.contentType),
                to: output
            )
            call.exchange.write(output)
            try await writeContent(of: attachment)
        }
    }

    /// Writes one document as a part of a list: JSON, or a multipart within it if there are contents.
    ///
    /// - Throws: `Refusal` as `write`.
    func writeItem(_ revision: ReadRevision, to list: inout MultipartWriter) async throws(Refusal) {
        guard !revision.loaded.isEmpty else {
            let output = ByteWriter()
            append(await json(revision), .document, to: &list, output: output)
            call.exchange.write(output)
            return
        }
        var parts = MultipartWriter(boundary: call.boundary())
        let output = ByteWriter()
        list.beginPart(
            .nested(parts, document: revision.document, revision: revision.revision),
            to: output
        )
        call.exchange.write(output)
        try await write(revision, to: &parts)
        output.removeAll()
        parts.endNested(to: output)
        call.exchange.write(output)
    }

    /// Writes an error as a part of a list.
    func writeError(to list: inout MultipartWriter, _ body: (ByteWriter) -> Void) {
        let json = ByteWriter()
        body(json)
        let output = ByteWriter()
        append(json, .error, to: &list, output: output)
        call.exchange.write(output)
    }

    // MARK: Implementation

    private func text(
        of revision: ReadRevision,
        inlineBytesMax: Int
    ) async -> (json: ByteWriter, following: [StoredAttachment]) {
        var forms: [String: StoredAttachment.Form] = [:]
        var following: [StoredAttachment] = []
        for attachment in revision.loaded {
            // A stub of another database may have no content here, and stays one.
            guard let count = await call.database.contentCount(of: attachment) else { continue }
            if count > inlineBytesMax {
                forms[attachment.name] = .follows
                following.append(attachment)
            } else if let bytes = await call.database.content(of: attachment, 0..<count) {
                let text = bytes.withUnsafeBytes { Base64.encode(ByteView($0)) }
                forms[attachment.name] = .inline(String(decoding: text, as: UTF8.self))
            }
        }
        let json = ByteWriter(capacity: revision.body.json.count + 256)
        revision.write(to: json) { forms[$0.name] ?? .stub }
        return (json, following)
    }

    private func append(
        _ json: ByteWriter,
        _ headers: PartHeaders,
        to parts: inout MultipartWriter,
        output: ByteWriter
    ) {
        guard compressesParts, json.count >= Self.compressedBytesMin else {
            parts.beginPart(headers, to: output)
            output.append(json)
            return
        }
        let encoding = [(name: "Content-Encoding", value: "gzip")]
        parts.beginPart(PartHeaders(encoding + headers.fields), to: output)
        let deflater = Deflater(.gzip, .small)
        json.withView { deflater.deflate($0, to: output) }
        deflater.finish(to: output)
    }

    private func writeContent(of attachment: StoredAttachment) async throws(Refusal) {
        let count = await call.database.contentCount(of: attachment) ?? 0
        for start in stride(from: 0, to: count, by: Self.pieceBytes) {
            try await call.writable()
            let range = start..<min(start + Self.pieceBytes, count)
            guard let bytes = await call.database.content(of: attachment, range) else {
                throw .missing
            }
            bytes.withUnsafeBytes { call.exchange.write(ByteView($0)) }
        }
    }
}
