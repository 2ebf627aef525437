internal import Bytes
package import SyncWire

/// A revision that fits a document, before the sync function has validated it.
///
/// A write has two steps, as the sync function runs in another process, without a lock:
/// `WritePlan.make` decides where the revision belongs and names what must be validated, `commit`
/// makes the new document. If the document changed between them, the plan is dropped and made
/// again.
package struct WritePlan: Sendable {
    package enum Decision: Sendable {
        case refused(Refusal)
        /// The document has this revision already; the write succeeds and changes nothing.
        case known(RevisionID)
        case write(WritePlan)
    }

    let document: StoredDocument
    let request: RevisionRequest
    let rules: WriteRules
    let addition: RevisionTree.Addition
    let merge: AttachmentMerge
    /// The tree with the revision, before pruning.
    let tree: RevisionTree

    /// The new revision.
    package let revision: RevisionID

    /// The attachments of the new revision, by name.
    package var attachments: [StoredAttachment] { merge.attachments }

    /// Attachments whose blobs the document does not own yet: if one is not stored, the write is
    /// refused with `Refusal.missingBlob`.
    package var requiredBlobs: [StoredAttachment] {
        let owned = document.metadata.blobs
        return merge.requiredBlobs.filter { !owned.contains($0.digest) }
    }

    package var isWinner: Bool { tree.winner?.id == revision }

    /// An older leaf that becomes the winner, because the new revision deletes the winner.
    ///
    /// The sync function validates its body too.
    package var promoted: RevisionID? {
        guard let winner = tree.winner?.id, winner != revision else { return nil }
        return winner == document.metadata.tree.winner?.id ? nil : winner
    }

    /// The revisions whose body the sync function may get as `oldDoc`, nearest first: the first one
    /// whose body is still stored counts.
    package var ancestors: [RevisionID] { Array(tree.ancestry(of: revision).dropFirst()) }

    /// Decides what a request does to a document.
    ///
    /// - Parameters:
    ///   - request: The revision.
    ///   - document: The document as it is; a blank one if there is none.
    ///   - rules: The configuration of the database.
    /// - Returns: The plan, or that there is nothing to write.
    package static func make(
        _ request: RevisionRequest,
        on document: StoredDocument,
        _ rules: WriteRules
    ) -> Decision {
        do {
            return try decide(request, document, under: rules)
        } catch {
            return .refused(error)
        }
    }

    /// - Throws: `Refusal`, as `make` returns it.
    private static func decide(
        _ request: RevisionRequest,
        _ document: StoredDocument,
        under rules: WriteRules
    ) throws(Refusal) -> Decision {
        let named: Named
        switch request.kind {
        case .edit(let parent):
            named = try nameEdit(of: parent, request, metadata: document.metadata, under: rules)
        case .replicated(let history):
            named = try place(history, request, metadata: document.metadata, under: rules)
        }
        guard let merge = named.merge else { return .known(named.id) }
        var tree = document.metadata.tree
        tree.add(named.addition, isDeleted: request.isDeleted)
        try checkCount(of: tree, rules)
        return .write(
            WritePlan(
                document: document,
                request: request,
                rules: rules,
                addition: named.addition,
                merge: merge,
                tree: tree,
                revision: named.id
            )
        )
    }

    /// A revision with its place, and its attachments unless the tree has it already.
    private struct Named {
        let addition: RevisionTree.Addition
        var merge: AttachmentMerge?
        let id: RevisionID
    }

    /// - Throws: `Refusal` if the edit replaces no leaf, or an attachment is invalid.
    private static func nameEdit(
        of requested: RevisionID?,
        _ request: RevisionRequest,
        metadata: DocumentMetadata,
        under rules: WriteRules
    ) throws(Refusal) -> Named {
        let tree = metadata.tree
        let found = tree.parentOfEdit(
            requested,
            isDeleted: request.isDeleted,
            allowsConflicts: rules.allowsConflicts
        )
        switch found {
        case .parent(let parent):
            var named = try name(request, parent, metadata: metadata, under: rules)
            if tree.contains(named.id) { named.merge = nil }
            return named
        case .refused(let refusal):
            guard rules.acceptsRepeatedEdits, requested != nil, !request.isDeleted else {
                throw refusal
            }
            var named = try name(request, requested, metadata: metadata, under: rules)
            guard tree.isLeaf(named.id) else { throw refusal }
            named.merge = nil
            return named
        }
    }

    /// - Throws: `Refusal` if the history is invalid or makes a conflict, or an attachment is
    ///   invalid.
    private static func place(
        _ history: [RevisionID],
        _ request: RevisionRequest,
        metadata: DocumentMetadata,
        under rules: WriteRules
    ) throws(Refusal) -> Named {
        let placement = metadata.tree.placeReplicated(
            history,
            isDeleted: request.isDeleted,
            allowsConflicts: rules.allowsConflicts
        )
        switch placement {
        case .refused(let refusal): throw refusal
        case .known:
            return Named(addition: .init(parent: nil, chain: []), merge: nil, id: history[0])
        case .added(let addition):
            let merge = try AttachmentMerge(
                request.attachments,
                inherited: metadata.attachments(inheritedFrom: addition.parent),
                generation: history[0].generation
            )
            return Named(addition: addition, merge: merge, id: history[0])
        }
    }

    /// Names an edit of `parent`, which depends on the attachments.
    ///
    /// - Throws: `Refusal` if an attachment is invalid, or no generation is left.
    private static func name(
        _ request: RevisionRequest,
        _ parent: RevisionID?,
        metadata: DocumentMetadata,
        under rules: WriteRules
    ) throws(Refusal) -> Named {
        let (generation, isOver) = (parent?.generation ?? 0).addingReportingOverflow(1)
        if isOver { throw .invalidRevision }
        let merge = try AttachmentMerge(
            request.attachments,
            inherited: metadata.attachments(inheritedFrom: parent),
            generation: generation
        )
        let id = request.name(replacing: parent, merge.attachments, rules)
        return Named(addition: .init(parent: parent, chain: [id]), merge: merge, id: id)
    }

    /// - Throws: `Refusal` if the tree is too large even after pruning.
    private static func checkCount(of tree: RevisionTree, _ rules: WriteRules) throws(Refusal) {
        guard tree.count > RevisionTree.countMax else { return }
        var pruned = tree
        pruned.prune(limit: rules.revsLimit, rules.dialect)
        if pruned.count > RevisionTree.countMax { throw .treeTooLarge }
    }
}
