package import SyncWire

/// The result of an accepted write: documents, bodies and blobs to store, and those that can go.
///
/// Order: blobs and separate bodies first, then the document, then what was removed. So a crash
/// between leaves unused blobs and bodies, never a document without them.
package struct StoredWrite: Hashable, Sendable {
    /// A body with the revision that it belongs to.
    package struct Body: Hashable, Sendable {
        package let revision: RevisionID
        package let body: RevisionBody
    }

    /// Bodies of losing leaves up to this many bytes are in the document's metadata (Sync Gateway's
    /// limit).
    static let inlineBytesMax = 250
    /// All of them together: metadata is written with each change.
    static let inlineBytesSumMax = 65_536

    package let revision: RevisionID
    package internal(set) var document: StoredDocument
    /// New contents of attachments; those without bytes are stored already.
    package let blobs: [AttachmentBlob]
    /// Bodies to store as documents of their own before the document.
    package internal(set) var separateBodies: [Body] = []
    /// The body of the replaced revision; nil if it is stored already or has no content.
    ///
    /// Readers may ask for it for some minutes (Sync Gateway: five), then it can be dropped.
    package internal(set) var archived: Body?
    /// Revisions whose separate bodies can be removed after the document is stored.
    package internal(set) var removedBodies: [RevisionID] = []
    /// Digests that no leaf of the document has any more: to be deleted later, unless a write
    /// refers to them.
    package internal(set) var condemnedBlobs: [String] = []
    package internal(set) var changed = DocumentMetadata.ChangedPrincipals()

    init(revision: RevisionID, document: StoredDocument, blobs: [AttachmentBlob]) {
        self.revision = revision
        self.document = document
        self.blobs = blobs
    }

    // MARK: Bodies

    /// Moves the body of the replaced revision, which is no leaf any more, to the archive.
    mutating func retireParent(_ parent: RevisionID?, of before: StoredDocument) {
        guard let parent else { return }
        if parent == before.metadata.tree.winner?.id {
            let attachments = before.metadata.attachments
            archive(parent, RevisionBody(json: before.body, attachments: attachments))
        } else if let leaf = removeLeaf(parent) {
            guard let json = leaf.json else {
                removedBodies.append(parent)
                return
            }
            archive(parent, RevisionBody(json: json, attachments: leaf.attachments))
        }
    }

    private mutating func archive(_ revision: RevisionID, _ body: RevisionBody) {
        if !body.isBlank { archived = Body(revision: revision, body: body) }
    }

    /// Keeps the body of the winner before, if it is still a leaf.
    mutating func demoteWinner(of before: StoredDocument, replacedBy winner: RevisionID) {
        guard let old = before.metadata.tree.winner, old.id != winner,
            document.metadata.tree.isLeaf(old.id)
        else { return }
        let attachments = before.metadata.attachments
        keepLeaf(old.id, RevisionBody(json: before.body, attachments: attachments))
    }

    mutating func setWinner(_ body: RevisionBody) {
        document.body = body.json
        document.metadata.attachments = body.attachments
    }

    /// Makes a leaf the winner; `json` is its body.
    mutating func promote(_ revision: RevisionID, _ json: [UInt8]) {
        let leaf = removeLeaf(revision)
        setWinner(RevisionBody(json: json, attachments: leaf?.attachments ?? []))
        if let leaf, leaf.json == nil { removedBodies.append(revision) }
    }

    /// Keeps the body of a leaf that is not the winner, in the metadata if it is small.
    mutating func keepLeaf(_ revision: RevisionID, _ body: RevisionBody) {
        if document.metadata.tree[revision]?.isDeleted == true, body.isBlank { return }
        let sum = document.metadata.leafBodies.reduce(0) { $0 + ($1.json?.count ?? 0) }
        let isInline =
            body.json.count <= StoredWrite.inlineBytesMax
            && sum + body.json.count <= StoredWrite.inlineBytesSumMax
        document.metadata.leafBodies.append(
            LeafBody(
                revision: revision,
                attachments: body.attachments,
                json: isInline ? body.json : nil
            )
        )
        if !isInline { separateBodies.append(Body(revision: revision, body: body)) }
    }

    private mutating func removeLeaf(_ revision: RevisionID) -> LeafBody? {
        let index = document.metadata.leafBodies.firstIndex { $0.revision == revision }
        return index.map { document.metadata.leafBodies.remove(at: $0) }
    }

    // MARK: Pruning

    /// Removes old revisions, and the bodies of tombstones of which only the ids stay.
    mutating func prune(_ rules: WriteRules) {
        let pruned = document.metadata.tree.prune(limit: rules.revsLimit, rules.dialect)
        for outdated in pruned.outdatedLeaves {
            guard let leaf = removeLeaf(outdated), leaf.json == nil else { continue }
            separateBodies.removeAll { $0.revision == outdated }
            removedBodies.append(outdated)
        }
        document.metadata.dropUnusedChannelSets()
    }
}
