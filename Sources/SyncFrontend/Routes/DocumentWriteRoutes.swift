internal import Bytes
internal import Revisions
internal import SyncService
internal import SyncWire

/// Writes of one document.
extension RouteCall {
    func putDocument() async throws(Refusal) {
        let id = parameter("doc")
        let isEdit = query["new_edits"] != "false"
        var sent = try await sentDocument(id, isEdit: isEdit)
        let own = sent.body.own
        if database.dialect == .third, let inBody = own.id, inBody != id {
            let reason =
                "The document ID provided in the body does not match the document ID in the path"
            throw Refusal(400, reason)
        }
        if isEdit {
            sent.replaced = replacedRevision
            if database.dialect == .third, let inBody = own.revision,
                let named = sent.replaced, inBody != named
            {
                throw Refusal(400, "Revision IDs provided do not match")
            }
        }
        let revision = try await database.write(sent, by: requester).description
        answerWritten(
            201,
            id,
            revision: revision,
            headers: isEdit ? ["Etag": EntityTag.quoted(revision)] : [:]
        )
    }

    /// Creates a document whose id the body or the gateway chooses.
    func postDocument() async throws(Refusal) {
        let sent = try await sentDocument(nil, isEdit: true)
        guard sent.body.own.revision == nil else { throw .noPreviousRevision }
        let revision = try await database.write(sent, by: requester).description
        answerWritten(
            200,
            sent.id,
            revision: revision,
            headers: [
                "Location": PercentCoding.encode(sent.id), "Etag": EntityTag.quoted(revision),
            ]
        )
    }

    func deleteDocument() async throws(Refusal) {
        let id = parameter("doc")
        var sent = SentDocument(id, .tombstone, isEdit: true)
        sent.replaced = replacedRevision
        let revision = try await database.write(sent, by: requester)
        answerWritten(200, id, revision: revision.description)
    }

    // MARK: Bodies

    /// Reads the document of a PUT or POST: JSON, or a multipart with contents of attachments, which are stored.
    ///
    /// - Parameters:
    ///   - id: That of the path; nil for the one of the body, or a new one.
    ///   - isEdit: Whether the gateway names the revision.
    /// - Returns: The document.
    /// - Throws: `Refusal` 400, 413 or 415.
    private func sentDocument(_ id: String?, isEdit: Bool) async throws(Refusal) -> SentDocument {
        let value = request.header("Content-Type") ?? ""
        let type = ContentType(value)
        if type?.type == "multipart/related", let type {
            return try await multipartDocument(type, id, isEdit: isEdit)
        }
        guard value.isEmpty || type?.type == "application/json" else { throw .contentType(value) }
        let text = try await body(atMost: SyncLimits.documentBytesMax)
        return sentDocument(id, try documentBody(text), isEdit: isEdit)
    }

    private func sentDocument(_ id: String?, _ body: DocumentBody, isEdit: Bool) -> SentDocument {
        SentDocument(id ?? body.own.id ?? database.newDocumentID(), body, isEdit: isEdit)
    }

    private func documentBody(_ text: ByteWriter) throws(Refusal) -> DocumentBody {
        do {
            return try text.withView { (text) throws(RequestRefusal) in
                try DocumentBody(text, numbers: database.dialect.numbers)
            }
        } catch {
            if error == .badJSON, text.bytes == Array("null".utf8) {
                throw Refusal(400, "Document body is empty")
            }
            throw Refusal(error)
        }
    }

    private func multipartDocument(
        _ type: ContentType,
        _ id: String?,
        isEdit: Bool
    ) async throws(Refusal) -> SentDocument {
        let parts = try PartStream(type, BodyStream(exchange))
        let first: ReceivedPart
        do throws(Refusal) {
            guard let part = try await parts.next() else { throw Refusal(RequestRefusal.badJSON) }
            first = part
        } catch {
            let isCut = error == Refusal(RequestRefusal.badMultipart(.cutShort))
            throw isCut ? Refusal(RequestRefusal.badJSON) : error
        }
        let text = try first.document()
        var sent = sentDocument(id, try documentBody(text), isEdit: isEdit)
        sent.order = text.withView { DocumentBody.attachmentNames(in: $0) }
        while let part = try await parts.next() {
            try await store(part.content)
            sent.parts.append(part.content.name)
        }
        return sent
    }

    /// Stores the content of an attachment, before the document that names it.
    func store(_ content: ReceivedContent) async throws(Refusal) {
        try await database.stores.blobs.store(content.bytes.bytes, digest: content.name.sha1)
    }
}

extension Refusal {
    static let noPreviousRevision = Refusal(404, "No previous revision to replace")
}
