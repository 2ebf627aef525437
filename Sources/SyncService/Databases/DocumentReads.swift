package import Bytes
internal import JSON
package import Revisions
package import SyncWire
internal import Syncing

/// One revision that a request reads.
package struct ReadRequest: Sendable {
    package let document: String
    /// Nil for the winner.
    package let revision: String?
    /// The member `_revisions`; nil for none.
    package let history: DocumentQuery.HistoryOptions?
    /// The revisions whose attachments the client has; nil if contents are not asked for.
    package let attachmentsSince: [String]?
    package let hasExpiry: Bool

    package init(
        _ document: String,
        _ revision: String?,
        history: DocumentQuery.HistoryOptions? = nil,
        attachmentsSince: [String]? = nil,
        hasExpiry: Bool = false
    ) {
        self.document = document
        self.revision = revision
        self.history = history
        self.attachmentsSince = attachmentsSince
        self.hasExpiry = hasExpiry
    }
}

/// A revision as a request gets it.
package struct ReadRevision: Sendable {
    package let document: String
    package let revision: RevisionID
    package let isDeleted: Bool
    /// The requester has no channel of the revision, so that it gets neither members nor attachments.
    package let isRedacted: Bool
    /// Empty for none.
    package let history: [RevisionID]
    package let body: RevisionBody
    /// The lowest `revpos` of attachments whose content is asked for; nil for none.
    package let revposMin: Int?
    /// The second at which the document expires, for `_exp`; nil if it is not asked for, or never.
    package let expires: UInt64?

    /// The attachments whose contents the answer has.
    package var loaded: [StoredAttachment] {
        guard let revposMin else { return [] }
        return body.attachments.filter { $0.revpos >= revposMin }
    }

    /// Writes the document.
    ///
    /// - Parameters:
    ///   - output: Where it is appended.
    ///   - form: How each attachment is printed.
    package func write(
        to output: ByteWriter,
        form: (StoredAttachment) -> StoredAttachment.Form = { _ in .stub }
    ) {
        var own = GatewayMembers(id: document, revision: revision)
        if isDeleted { own.deletion = true }
        own.isRemoved = isRedacted && !isDeleted
        if let expires {
            own.expiry = JSONWriter.text {
                $0.value(CalendarTime.text(unixNanoseconds: expires * 1_000_000_000))
            }
        }
        if let first = history.first {
            own.revisions = RevisionHistory(of: first, ancestors: history.dropFirst()).json
        }
        if !body.attachments.isEmpty {
            own.attachments = CanonicalJSON.text(
                of: StoredAttachment.json(body.attachments, form: form)
            )
        }
        let content = body.json.isEmpty ? .empty : DocumentContent(canonical: body.json)
        content.append(with: own, to: output)
    }
}

extension SyncDatabase {
    /// Reads revisions.
    ///
    /// - Returns: For each request the revision, or 404 `missing` or `deleted`, or 403 `forbidden`.
    package func read(
        _ requests: [ReadRequest],
        for requester: Requester
    ) async -> [Result<ReadRevision, Refusal>] {
        let ids = requests.map { Array($0.document.utf8) }
        let documents = await stores.reads.documents(ids)
        var found: [Result<FoundRevision, Refusal>] = []
        var apart: [RevisionName] = []
        for (index, request) in requests.enumerated() {
            let one = FoundRevision.find(request, documents[index], for: requester)
            if case .success(let found) = one, found.body == nil {
                apart.append(RevisionName(found.revision, of: ids[index]))
            }
            found.append(one)
        }
        var bodies = apart.isEmpty ? [][...] : await stores.reads.bodies(apart)[...]
        return zip(requests, found).map { request, found in
            found.flatMap { found in
                guard let body = found.body ?? bodies.removeFirst() else {
                    return .failure(.missing)
                }
                return .success(found.read(request, body))
            }
        }
    }

    package func read(
        _ request: ReadRequest,
        for requester: Requester
    ) async throws(Refusal) -> ReadRevision {
        try await read([request], for: requester)[0].get()
    }

    /// The revisions of `open_revs=all`: all leaves, the winner first.
    ///
    /// - Throws: `Refusal` 404 if there is no document.
    package func leaves(of document: String) async throws(Refusal) -> [RevisionID] {
        guard let found = await stores.reads.documents([Array(document.utf8)])[0] else {
            throw .missing
        }
        return found.metadata.tree.leaves.map(\.id)
    }
}

/// A revision that a requester may read, before its body is there.
private struct FoundRevision {
    let document: StoredDocument
    let revision: RevisionID
    let isDeleted: Bool
    let isRedacted: Bool
    /// Nil if it is not in the document.
    let body: RevisionBody?

    static func find(
        _ request: ReadRequest,
        _ document: StoredDocument?,
        for requester: Requester
    ) -> Result<FoundRevision, Refusal> {
        guard let document else { return .failure(.missing) }
        let tree = document.metadata.tree
        let named = request.revision.map { RevisionID($0) }
        guard let id = named ?? tree.winner?.id, let node = tree[id] else {
            return .failure(.missing)
        }
        let isPermitted = requester.mayRead(document.metadata.channels(of: id))
        if request.revision == nil {
            if !isPermitted { return .failure(Refusal(403, "forbidden")) }
            if node.isDeleted { return .failure(Refusal(404, "deleted")) }
        }
        return .success(
            FoundRevision(
                document: document,
                revision: id,
                isDeleted: node.isDeleted,
                isRedacted: !isPermitted,
                body: document.body(of: id)
            )
        )
    }

    func read(_ request: ReadRequest, _ body: RevisionBody) -> ReadRevision {
        let metadata = document.metadata
        var history: [RevisionID] = []
        if let options = request.history {
            history = metadata.tree.history(
                of: revision,
                limit: options.limit ?? .max,
                cutAt: options.known.compactMap { RevisionID($0) }
            )
        }
        var revposMin: Int?
        if let since = request.attachmentsSince, !isRedacted {
            revposMin = metadata.revposMin(
                for: revision,
                known: since.compactMap { RevisionID($0) }
            )
        }
        return ReadRevision(
            document: request.document,
            revision: revision,
            isDeleted: isDeleted,
            isRedacted: isRedacted,
            history: history,
            body: isRedacted ? RevisionBody() : body,
            revposMin: revposMin,
            expires: request.hasExpiry && document.expires != 0 ? document.expires : nil
        )
    }
}

extension StoredDocument {
    /// The body of a revision if it is in the document; nil if it is apart, or gone.
    func body(of revision: RevisionID) -> RevisionBody? {
        switch metadata.bodyPlace(of: revision) {
        case .document: RevisionBody(json: body, attachments: metadata.attachments)
        case .inline(let body): body
        case .separate, .archive, .unknown: nil
        }
    }
}
