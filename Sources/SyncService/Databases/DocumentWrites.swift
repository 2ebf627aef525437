internal import Bytes
internal import Credentials
package import JSON
package import Revisions
internal import Seams
package import SyncWire
package import Syncing

/// A document that a request writes, with the MIME parts that followed it.
package struct SentDocument: Sendable {
    package let id: String
    package let body: DocumentBody
    /// Whether the gateway names the revision (`new_edits`); otherwise `_revisions` has the history.
    package let isEdit: Bool
    /// The revision to replace, from the query or `If-Match`; nil for that of the body.
    package var replaced: String?
    /// The contents of attachments that follow the document, which are stored.
    package var parts: [AttachmentParts.Part] = []
    /// The names of attachments in the order of the document's text, for parts without digest.
    package var order: [String] = []

    package init(_ id: String, _ body: DocumentBody, isEdit: Bool) {
        self.id = id
        self.body = body
        self.isEdit = isEdit
    }

    /// The write of the document.
    ///
    /// - Throws: `Refusal` if a member of the gateway is invalid.
    func write(by author: RevisionAuthor?) throws(Refusal) -> RevisionWrite {
        guard SyncDatabase.isDocumentID(id) else { throw .invalidDocumentID }
        let own = body.own
        if own.isRemoved { throw .inaccessible }
        let tree = own.attachments.flatMap { $0.withUnsafeBytes { JSONValue.parse(ByteView($0)) } }
        var attachments = try SentAttachment.parse(tree, sha1: LegacyDigest.sha1)
        // Only a document of a multipart has an order.
        if !parts.isEmpty || !order.isEmpty {
            attachments = try AttachmentParts.match(parts, to: attachments, order: order)
        }
        let request = RevisionRequest(
            try kind(),
            body.content,
            deletion: own.deletion,
            attachments: attachments
        )
        var expiry: DocumentExpiry?
        do {
            expiry = try own.documentExpiry()
        } catch {
            throw Refusal(error)
        }
        return RevisionWrite(request, to: Array(id.utf8), by: author, expiry: expiry)
    }

    /// - Throws: `Refusal` 400 if the revision to replace is none, or the history is missing or invalid.
    private func kind() throws(Refusal) -> RevisionRequest.Kind {
        guard isEdit else {
            do {
                return .replicated(history: try body.own.history().revisions)
            } catch {
                throw Refusal(error)
            }
        }
        guard let text = replaced ?? body.own.revision, !text.isEmpty else {
            return .edit(parent: nil)
        }
        guard let parent = RevisionID(text) else {
            throw RevisionID.lacksDigest(text) ? .staleRevision : .invalidRevision
        }
        return .edit(parent: parent)
    }
}

extension Refusal {
    package init(_ refusal: RequestRefusal) { self.init(refusal.status, refusal.reason) }
}

extension SyncDatabase {
    /// Writes documents, as one batch for the sync function.
    ///
    /// - Returns: The revision of each, or why it is refused.
    package func write(
        _ documents: [SentDocument],
        by requester: Requester
    ) async -> [Result<RevisionID, Refusal>] {
        let author = requester.author
        var results: [Result<RevisionID, Refusal>?] = []
        var writes: [RevisionWrite] = []
        for document in documents {
            do {
                writes.append(try document.write(by: author))
                results.append(nil)
            } catch {
                results.append(.failure(error))
            }
        }
        var outcomes = writes.isEmpty ? [][...] : await stores.writes.write(writes)[...]
        return results.map { result in
            if let result { return result }
            return switch outcomes.removeFirst() {
            case .stored(let revision): .success(revision)
            case .refused(let refusal): .failure(refusal)
            }
        }
    }

    /// - Throws: `Refusal`.
    package func write(
        _ document: SentDocument,
        by requester: Requester
    ) async throws(Refusal) -> RevisionID {
        try await write([document], by: requester)[0].get()
    }

    /// A random id for a document without one: 32 hexadecimal digits.
    package func newDocumentID() -> String { environment.entropy.hex(16) }

    /// How `PUT` and `DELETE` of one attachment change the list of a document's attachments.
    package enum AttachmentChange: Sendable {
        /// A content that is stored, in place of one of the same name.
        case put(String, AttachmentParts.Part, contentType: String)
        case delete(String)
    }

    /// The document that `PUT` and `DELETE` of one attachment write.
    ///
    /// - Parameters:
    ///   - change: What to do with the attachments of the revision.
    ///   - document: The id.
    ///   - revision: The revision to replace; nil or empty for none.
    ///   - requester: Who reads it.
    /// - Returns: The document to write.
    /// - Throws: `Refusal`, for example 404 if there is no attachment to delete.
    package func document(
        _ change: AttachmentChange,
        _ document: String,
        replacing revision: String?,
        for requester: Requester
    ) async throws(Refusal) -> SentDocument {
        let named = revision.flatMap { $0.isEmpty ? nil : $0 }
        var isPut = false
        if case .put = change { isPut = true }
        var members: [JSONValue.Member] = []
        let content = ByteWriter()
        content.append("{}")
        // As Sync Gateway, a tombstone that is named stays one.
        var isTombstone = false
        switch await read([ReadRequest(document, named)], for: requester)[0] {
        case .success(let found):
            // Everyone sees a tombstone.
            if found.isRedacted, !found.isDeleted { throw .inaccessible }
            if named == nil, !isPut || dialect == .third {
                throw Refusal(409, "Cannot modify attachments without a specific rev ID")
            }
            if !found.body.json.isEmpty {
                content.removeAll()
                content.append(found.body.json)
            }
            members = StoredAttachment.json(found.body.attachments).members ?? []
            isTombstone = found.isDeleted
        // CouchDB makes the document for its first attachment.
        case .failure(let refusal) where refusal.status == 404 && isPut: break
        case .failure(.missing): throw Refusal(409, "Incorrect revision ID specified")
        case .failure(let refusal) where refusal.status == 404:
            throw Refusal(404, "Document specified is not found")
        case .failure(let refusal): throw refusal
        }
        try change.apply(to: &members)
        let parsed: DocumentBody
        do {
            parsed = try content.withView { (content) throws(RequestRefusal) in
                try DocumentBody(content, policy: .stored, numbers: .literals)
            }
        } catch {
            preconditionFailure("a stored body is a document: \(error)")
        }
        var body = parsed
        body.own.attachments = JSONWriter.text { $0.value(.object(members)) }
        if isTombstone { body.own.deletion = true }
        var sent = SentDocument(document, body, isEdit: true)
        sent.replaced = named
        if case .put(_, let part, _) = change { sent.parts = [part] }
        return sent
    }

    /// Removes documents without a trace.
    ///
    /// - Returns: The ids of those that existed.
    package func purge(_ documents: [String]) async -> [String] {
        let found = await stores.writes.purge(documents.map { Array($0.utf8) })
        return zip(documents, found).filter(\.1).map(\.0)
    }
}

extension SyncDatabase.AttachmentChange {
    /// - Throws: `Refusal` 404 if there is no attachment to delete.
    fileprivate func apply(to members: inout [JSONValue.Member]) throws(Refusal) {
        switch self {
        case .put(let name, let part, let contentType):
            members.removeAll { $0.name == name }
            let claim: JSONValue = .object([
                JSONValue.Member(name: "content_type", value: .string(contentType)),
                JSONValue.Member(name: "digest", value: .string(part.sha1)),
                JSONValue.Member(name: "follows", value: .bool(true)),
            ])
            members.append(JSONValue.Member(name: name, value: claim))
        case .delete(let name):
            guard members.contains(where: { $0.name == name }) else {
                throw Refusal(404, "Attachment \(name) is not found")
            }
            members.removeAll { $0.name == name }
        }
    }
}

extension Refusal {
    fileprivate static let inaccessible = Refusal(404, "Document revision is not accessible")
}

/// Checkpoints of replicators: `_local/ID`.
extension SyncDatabase {
    /// - Returns: Nil if there is none.
    package func localDocument(_ id: String) async -> LocalDocument? {
        await storedLocal(id)?.document
    }

    /// Writes a checkpoint.
    ///
    /// - Throws: `Refusal` 400, 404, 409 or 507.
    package func putLocal(_ id: String, _ body: JSONValue) async throws(Refusal) -> LocalDocument {
        while true {
            let stored = await storedLocal(id)
            switch LocalDocument.put(body, existing: stored?.document) {
            case .refused(let refusal): throw refusal
            case .deleted: preconditionFailure("a PUT deletes nothing")
            case .stored(let document):
                let written = try await stores.sides.put(
                    .plain(document.stored),
                    at: Self.localKey(id),
                    replacing: stored?.version ?? 0
                )
                // Another request wrote it meanwhile.
                if written != nil { return document }
            }
        }
    }

    /// Deletes a checkpoint.
    ///
    /// - Throws: `Refusal` 404 or 409.
    package func deleteLocal(_ id: String, revision: String?) async throws(Refusal) {
        while true {
            let stored = await storedLocal(id)
            if case .refused(let refusal) = LocalDocument.delete(
                revision,
                existing: stored?.document
            ) {
                throw refusal
            }
            guard let stored else { return }
            if await stores.sides.remove(Self.localKey(id), version: stored.version) { return }
        }
    }

    private static func localKey(_ id: String) -> String { "_sync:local:" + id }

    private func storedLocal(_ id: String) async -> (document: LocalDocument, version: UInt64)? {
        guard let side = await stores.sides.get(Self.localKey(id)) else { return nil }
        let document = side.bytes.withUnsafeBytes { LocalDocument(stored: ByteView($0)) }
        return document.map { ($0, side.version) }
    }
}
