internal import Orchestration
internal import Seams
internal import Vocabulary

extension DesignDocumentService {
    /// Checks that this node may have the files of all its indexes open, with those of a new design document.
    ///
    /// An index without work has no open file, and the next change of its bucket opens it.
    ///
    /// - Throws: `DesignDocumentError.descriptorsExhausted` with the numbers and the cure.
    func requireDescriptors(
        for definition: DesignDefinition,
        in bucket: BucketRecord
    ) throws(DesignDocumentError) {
        guard let openCount = cluster.settings.openIndexCount?() else { return }
        let present = bucket.maps
        let newCount = Set(definition.views.map(\.map)).subtracting(present).count
        let restingCount = max(
            0,
            cluster.state.buckets.reduce(0) { $0 + $1.maps.count } - openCount
        )
        let files = (newCount + restingCount) * Limits.descriptorsPerIndex
        guard newCount > 0, let obstacle = cluster.descriptors.obstacle(toOpening: files) else {
            return
        }
        throw DesignDocumentError(
            .descriptorsExhausted,
            "The design document is refused: \(newCount) new indexes would be open beside "
                + "\(restingCount) of this node that have no work now. \(obstacle)"
        )
    }
}

extension BucketRecord {
    /// The different map functions of the bucket's design documents: each is an index.
    fileprivate var maps: Set<String> {
        Set(designDocuments.flatMap { $0.definition.views.map(\.map) })
    }
}
