package import Vocabulary

/// Compares what a consumer has of a vBucket with a copy of the same history.
package struct ConsumerComparison {
    /// The copy's documents and tombstones.
    package var versions: [[UInt8]: CopyContent.Version]
    /// Tombstones up to this seqno may be purged.
    package var purged: Seqno
    /// Whether `versions` are all that the copy has.
    package var isComplete: Bool

    package init(
        versions: [[UInt8]: CopyContent.Version],
        purged: Seqno,
        isComplete: Bool
    ) {
        self.versions = versions
        self.purged = purged
        self.isComplete = isComplete
    }

    /// The first difference, while the copy may have newer changes; nil if there is none.
    ///
    /// The consumer has each version up to its position that the copy still has, and no version that
    /// the copy never had.
    package func flaw(in view: ConsumerView) -> String? {
        let documents = view.documents
        let keys = Set(versions.keys).union(documents.keys)
        let bad = keys.filter { differs(versions[$0], documents[$0], position: view.position) }
        guard let key = bad.min(by: { $0.lexicographicallyPrecedes($1) }) else { return nil }
        let copy = versions[key].map { "\($0)" } ?? "nothing"
        let found = documents[key].map { "\($0)" } ?? "nothing"
        return "\(String(decoding: key, as: UTF8.self)) is \(copy), and the client, at "
            + "\(view.position.value), has \(found)"
    }

    /// The first difference after the last change; nil if there is none.
    package func finalFlaw(in view: ConsumerView) -> String? {
        if let newest = versions.values.map(\.seqno).max(), newest > view.position {
            return "it stays at \(view.position.value), and the last change is \(newest.value)"
        }
        if view.isInSnapshot {
            return "it waits for the end of a snapshot at \(view.snapshot.end.value), and the last "
                + "change is \(view.position.value)"
        }
        return flaw(in: view)
    }

    private func differs(
        _ copy: CopyContent.Version?,
        _ found: CopyContent.Version?,
        position: Seqno
    ) -> Bool {
        // A tombstone may have been purged, a document not.
        guard let copy else { return isComplete && found?.isDeleted == false }
        guard copy.seqno <= position else { return false }
        guard let found else { return !copy.isDeleted || copy.seqno > purged }
        return !found.shows(copy)
    }
}
