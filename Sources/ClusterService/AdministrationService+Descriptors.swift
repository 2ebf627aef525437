internal import Orchestration
package import Seams
internal import Vocabulary

extension AdministrationService {
    /// The descriptors of this process, which all ports share.
    package var descriptors: Descriptors { environment.descriptors }

    /// The alert while clients or nodes wait for descriptors.
    var descriptorAlerts: [Alert] {
        descriptors.shortage.map { [Alert(id: "descriptors", message: $0)] } ?? []
    }

    /// Checks that this node may open the index files of a new design document.
    ///
    /// - Throws: `DesignDocumentError.descriptorsExhausted` with the numbers and the cure.
    func requireDescriptors(
        for definition: DesignDefinition,
        in bucket: BucketRecord
    ) throws(DesignDocumentError) {
        let files = bucket.newMapCount(of: definition) * Limits.descriptorsPerIndex
        guard files > 0, let obstacle = descriptors.obstacle(toOpening: files) else { return }
        throw DesignDocumentError(
            .descriptorsExhausted,
            "The design document is refused. \(obstacle)"
        )
    }
}

extension BucketRecord {
    /// The map functions of a definition that no design document of the bucket has: each is an index.
    fileprivate func newMapCount(of definition: DesignDefinition) -> Int {
        let present = Set(designDocuments.flatMap { $0.definition.views.map(\.map) })
        return Set(definition.views.map(\.map)).subtracting(present).count
    }
}
