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
    package let details: DocumentQuery.Details

    package init(
        _ document: String,
        _ revision: String?,
        history: DocumentQuery.HistoryOptions? = nil,
        attachmentsSince: [String]? = nil,
        details: DocumentQuery.Details = []
    ) {
        self.document = document
        self.revision = revision
        self.history = history
        self.attachmentsSince = attachmentsSince
        self.details = details
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
    package internal(set) var answerMembers = AnswerMembers()

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
        own.answer = answerMembers
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
        var results: [Result<ReadRevision, Refusal>] = []
        for (request, found) in zip(requests, found) {
            switch found {
            case .failure(let refusal): results.append(.failure(refusal))
            case .success(let found):
                // The archive has no bodies without content, as most tombstones are.
                let blank = found.isDeleted ? RevisionBody() : nil
                guard let body = found.body ?? bodies.removeFirst() ?? blank else {
                    results.append(.failure(.missing))
                    continue
                }
                var revision = found.read(request, body)
                if request.details.contains(.revisionInfo), !revision.isRedacted {
                    revision.answerMembers.revisionInfo = await revisionInfo(of: found, request)
                }
                results.append(.success(revision))
            }
        }
        return results
    }

    /// The stored revisions, newest first, of a revision and its ancestors.
    private func revisionInfo(
        of found: FoundRevision,
        _ request: ReadRequest
    ) async -> [AnswerMembers.RevisionInfo] {
        let tree = found.document.metadata.tree
        let id = Array(request.document.utf8)
        var info: [AnswerMembers.RevisionInfo] = []
        for revision in tree.ancestry(of: found.revision) {
            var isStored = found.document.body(of: revision) != nil
            if !isStored {
                let name = RevisionName(revision, of: id)
                isStored = await stores.reads.bodies([name])[0] != nil
            }
            let isDeleted = tree[revision]?.isDeleted ?? false
            info.append(
                AnswerMembers.RevisionInfo(
                    revision.description,
                    isDeleted ? .deleted : isStored ? .available : .missing
                )
            )
        }
        return info
    }

    /// - Throws: `Refusal` 404 `missing` or `deleted`, or 403 `forbidden`.
    package func read(
        _ request: ReadRequest,
        for requester: Requester
    ) async throws(Refusal) -> ReadRevision {
        try await read([request], for: requester)[0].get()
    }

    /// The winner of a document in a list; contents of attachments if `request` has any revisions since.
    package func winner(
        of listed: ListedDocument,
        _ request: ReadRequest,
        for requester: Requester
    ) async -> ReadRevision? {
        guard
            case .success(let found) = FoundRevision.find(request, listed.document, for: requester),
            let body = found.body
        else { return nil }
        return found.read(request, body)
    }

    /// The revisions of `open_revs`, the winner first if they are all leaves.
    ///
    /// - Parameters:
    ///   - asked: All leaves, or named revisions.
    ///   - document: The id.
    ///   - isLatest: Whether the leaves that descend from a named revision are meant (CouchDB's `latest`).
    /// - Returns: Revisions, each once, that may be missing.
    /// - Throws: `Refusal` 404 if all leaves of a document are asked for that is not there.
    package func revisions(
        _ asked: OpenRevisions,
        of document: String,
        isLatest: Bool = false
    ) async throws(Refusal) -> [String] {
        if case .listed(let revisions) = asked, !isLatest { return revisions }
        guard Self.isDocumentID(document) else { throw .invalidDocumentID }
        let tree = await stores.reads.documents([Array(document.utf8)])[0]?.metadata.tree
        switch asked {
        case .all:
            guard let tree else { throw .missing }
            return tree.leaves.map(\.id.description)
        case .listed(let revisions):
            var found: [String] = []
            for text in revisions {
                let leaves = tree?.leaves(from: RevisionID(text)).map(\.description) ?? []
                let latest = leaves.isEmpty ? [text] : leaves
                found += latest.filter { !found.contains($0) }
            }
            return found
        }
    }

    /// Whether a document may have this id: 250 bytes at most, and none that begins with `_`.
    package static func isDocumentID(_ id: String) -> Bool {
        1...250 ~= id.utf8.count && id.utf8.first != UInt8(ascii: "_")
    }

    // MARK: Attachments

    /// Reads bytes of an attachment's content, as it is stored; nil if it is not.
    package func content(of attachment: StoredAttachment, _ range: Range<Int>) async -> [UInt8]? {
        await stores.blobs.read(attachment.digest, range)
    }

    /// The bytes of an attachment's content, as it is stored; nil if it is not.
    package func contentCount(of attachment: StoredAttachment) async -> Int? {
        await stores.blobs.count(of: attachment.digest)
    }
}

extension RevisionTree {
    /// The leaves that are a revision or descend from it; none for an unknown one.
    fileprivate func leaves(from ancestor: RevisionID?) -> [RevisionID] {
        guard let ancestor else { return [] }
        return leaves.map(\.id).filter { nearest(of: [ancestor], to: $0) != nil }
    }
}

extension Refusal {
    static let invalidDocumentID = Refusal(400, "Invalid doc ID")
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
        guard SyncDatabase.isDocumentID(request.document) else {
            return .failure(.invalidDocumentID)
        }
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
        let hasExpiry = request.details.contains(.expiry) && document.expires != 0 && !isRedacted
        var read = ReadRevision(
            document: request.document,
            revision: revision,
            isDeleted: isDeleted,
            isRedacted: isRedacted,
            history: history,
            body: isRedacted ? RevisionBody() : body,
            revposMin: revposMin,
            expires: hasExpiry ? document.expires : nil
        )
        if !isRedacted { read.answerMembers = members(request.details) }
        return read
    }

    private func members(_ details: DocumentQuery.Details) -> AnswerMembers {
        var members = AnswerMembers()
        let others = document.metadata.tree.leaves.filter { $0.id != revision }
        if details.contains(.conflicts) {
            members.conflicts = others.filter { !$0.isDeleted }.map(\.id.description)
        }
        if details.contains(.deletedConflicts) {
            members.deletedConflicts = others.filter(\.isDeleted).map(\.id.description)
        }
        if details.contains(.localSequence) { members.localSequence = document.metadata.sequence }
        return members
    }
}

extension StoredDocument {
    /// The body of a revision if it is in the document; nil if it is apart, or gone.
    func body(of revision: RevisionID) -> RevisionBody? {
        switch metadata.bodyLocation(of: revision) {
        case .document: RevisionBody(json: body, attachments: metadata.attachments)
        case .inline(let body): body
        case .separate, .archive, .unknown: nil
        }
    }
}
