internal import Bytes
internal import ClusterService
internal import ViewService
internal import Vocabulary

/// Implements the view service's port `IncludedDocuments` by the operations of the document browser,
/// which ask the node that serves the document.
struct IncludedDocumentReader: IncludedDocuments {
    private let cluster: AdministrationService

    init(_ cluster: AdministrationService) {
        self.cluster = cluster
    }

    func document(_ id: [UInt8], inBucket name: String) async -> IncludedDocument? {
        guard case .found(let copy) = await cluster.perform(.read, on: id, inBucket: name) else {
            return nil
        }
        let input = MapInput()
        // The texts belong to `input`.
        return withExtendedLifetime(input) {
            id.withUnsafeBytes { key in
                copy.value.withUnsafeBytes { value in
                    input.included(copy.meta, key: ByteView(key), value: ByteView(value))
                        .map { IncludedDocument(meta: $0.meta.bytes, body: $0.body.bytes) }
                }
            }
        }
    }
}
