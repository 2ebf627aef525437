package import SyncWire

/// The second step of a write: the new document, if the sync function accepts the revision.
extension WritePlan {
    /// The sync function's answer about one revision.
    package enum Acceptance: Hashable, Sendable {
        case accepted(SyncAssignment)
        case refused(Refusal)
    }

    /// The body and the acceptance of the leaf that becomes the winner.
    package struct PromotedLeaf: Hashable, Sendable {
        /// The body where `DocumentMetadata.bodyLocation(of:)` says, without special members.
        package let json: [UInt8]
        package let acceptance: Acceptance

        package init(json: [UInt8], acceptance: Acceptance) {
            self.json = json
            self.acceptance = acceptance
        }
    }

    package enum Outcome: Hashable, Sendable {
        /// Nothing changes, and no sequence was drawn.
        case refused(Refusal)
        case stored(StoredWrite)
    }

    /// Makes the new document.
    ///
    /// - Parameters:
    ///   - acceptance: Of the new revision.
    ///   - promotedLeaf: Of `promoted`; nil if that is nil.
    ///   - timeSaved: Nanoseconds since 1970.
    ///   - drawSequence: Returns a sequence above that of the document; called once if the write is
    ///     accepted.
    /// - Returns: What to store, or why the write is refused.
    package func commit(
        _ acceptance: Acceptance,
        promotedLeaf: PromotedLeaf? = nil,
        timeSaved: UInt64,
        drawSequence: () -> UInt64
    ) -> Outcome {
        precondition(
            (promoted == nil) == (promotedLeaf == nil),
            "a promoted leaf is validated, and only that"
        )
        if case .refused(let refusal) = promotedLeaf?.acceptance { return .refused(refusal) }
        switch acceptance {
        case .refused(let refusal): return .refused(refusal)
        case .accepted(let assignment):
            let sequence = drawSequence()
            precondition(
                sequence > document.metadata.sequence,
                "a write has a higher sequence than the one before"
            )
            return .stored(store(assignment, promotedLeaf, at: sequence, savedAt: timeSaved))
        }
    }

    private func store(
        _ assignment: SyncAssignment,
        _ promotedLeaf: PromotedLeaf?,
        at sequence: UInt64,
        savedAt timeSaved: UInt64
    ) -> StoredWrite {
        var write = StoredWrite(revision: revision, document: document, blobs: merge.blobs)
        write.document.metadata.begin(tree, at: sequence, timeSaved)
        write.retireParent(addition.parent, of: document)
        let body = RevisionBody(json: request.content.bytes, attachments: attachments)
        if isWinner {
            write.demoteWinner(of: document, replacedBy: revision)
            write.setWinner(body)
        } else {
            if let promoted, let json = promotedLeaf?.json { write.promote(promoted, json) }
            write.keepLeaf(revision, body)
        }
        write.document.metadata.setChannels(assignment.channels, of: revision)
        var current: SyncAssignment?
        if isWinner { current = assignment }
        if case .accepted(let promoted) = promotedLeaf?.acceptance { current = promoted }
        if let current {
            write.changed = write.document.metadata.assign(current, at: sequence)
        }
        write.prune(rules)
        let owned = write.document.metadata.blobs
        write.condemnedBlobs = document.metadata.blobs.subtracting(owned).sorted()
        return write
    }
}

extension DocumentMetadata {
    /// Begins a version of the document.
    mutating func begin(_ tree: RevisionTree, at sequence: UInt64, _ timeSaved: UInt64) {
        self.tree = tree
        self.sequence = sequence
        self.timeSaved = timeSaved
        recentSequences.append(sequence)
        recentSequences = Array(recentSequences.suffix(DocumentMetadata.recentSequencesMax))
    }
}
