internal import Vocabulary

/// Creates, replaces and deletes design documents.
///
/// A bucket keeps its design documents when it is flushed, and they end with the bucket. A deleted
/// one leaves nothing behind: created again, its revisions begin at 1.
extension ClusterState {
    /// Why a design document cannot have this text; nil if it can.
    ///
    /// `put` calls it when the entry is applied, because two requests that each pass on arrival can
    /// exceed the sum together.
    package func refusal(of change: DesignDocumentChange) -> ClusterRefusal? {
        guard let place = place(ofBucketWithUUID: change.bucket) else { return .bucketUnknown }
        guard (1...Limits.designNameBytesMax).contains(change.name.utf8.count),
            change.body.count <= Limits.designDocumentBytesMax
        else { return .designDocumentTooLarge }
        let old = buckets[place].designDocument(named: change.name)
        let present = old?.revision ?? .absent
        guard change.was ?? present == present else { return .changedMeanwhile }
        let after = designBytes(with: change, replacing: old)
        // A shorter text passes also if a later release allowed more than this one.
        guard after <= max(Limits.designDocumentsBytesMax, designBytes) else {
            return .designDocumentsTooLarge
        }
        // The same holds for fewer views.
        guard designViews(with: change, replacing: old) <= max(Limits.viewsOfAllMax, designViews)
        else { return .tooManyViews }
        return nil
    }

    /// The bytes of all design documents after a change.
    package func designBytes(
        with change: DesignDocumentChange,
        replacing old: DesignDocument?
    ) -> Int {
        designBytes - (old?.byteCount ?? 0)
            + DesignDocument.byteCount(name: change.name, body: change.body)
    }

    /// The views of all design documents.
    private var designViews: Int {
        buckets.reduce(0) { $0 + $1.designDocuments.reduce(0) { $0 + $1.viewCount } }
    }

    /// The views of all design documents after a change.
    package func designViews(
        with change: DesignDocumentChange,
        replacing old: DesignDocument?
    ) -> Int {
        designViews - (old?.viewCount ?? 0) + DesignDocument.viewCount(of: change.body)
    }

    mutating func put(_ change: DesignDocumentChange) -> ClusterOutcome {
        if let refusal = refusal(of: change) { return .refused(refusal) }
        guard let place = place(ofBucketWithUUID: change.bucket) else {
            return .refused(.bucketUnknown)
        }
        let old = buckets[place].designDocument(named: change.name)
        guard old?.body != change.body else { return .applied([]) }
        let document = DesignDocument(
            name: change.name,
            body: change.body,
            number: (old?.revision.number ?? 0) &+ 1
        )
        buckets[place].replace(document)
        return designChanged(place)
    }

    mutating func delete(_ removal: DesignDocumentRemoval) -> ClusterOutcome {
        guard let place = place(ofBucketWithUUID: removal.bucket) else {
            return .refused(.bucketUnknown)
        }
        guard let old = buckets[place].designDocument(named: removal.name) else {
            return .refused(.designDocumentUnknown)
        }
        guard removal.was ?? old.revision == old.revision else {
            return .refused(.changedMeanwhile)
        }
        buckets[place].designDocuments.removeAll { $0.isNamed(removal.name) }
        return designChanged(place)
    }

    private mutating func designChanged(_ place: Int) -> ClusterOutcome {
        buckets[place].designRevision = index
        return .applied([.designDocumentsChanged(bucket: buckets[place].settings.name)])
    }

    private func place(ofBucketWithUUID uuid: String) -> Int? {
        buckets.firstIndex { $0.settings.uuid == uuid }
    }
}
