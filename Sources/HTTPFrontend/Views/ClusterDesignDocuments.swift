package import ClusterService
internal import Orchestration
package import Vocabulary

/// The design documents of the agreed state, as the ports of this node show and change them.
package struct ClusterDesignDocuments: DesignDocumentPlane {
    private let service: AdministrationService

    package init(_ service: AdministrationService) {
        self.service = service
    }

    // MARK: Reading

    package func designDocuments(ofBucket bucket: String) async -> [DesignDocumentCopy]? {
        service.designDocuments(ofBucket: bucket)?.map { DesignDocumentCopy($0) }
    }

    /// The state has no tombstones, so a deleted document is `missing`.
    package func designDocument(
        _ name: String,
        ofBucket bucket: String
    ) async -> DesignDocumentLookup {
        service.designDocument(name, ofBucket: bucket)
            .map { .found(DesignDocumentCopy($0)) } ?? .missing
    }

    // MARK: Changing

    package func putDesignDocument(
        _ name: String,
        body: [UInt8],
        inBucket bucket: String,
        precondition: Precondition<String>
    ) async -> DesignDocumentOutcome {
        await outcome { () async throws(DesignDocumentError) in
            _ = try await service.putDesignDocument(
                name,
                body: body,
                inBucket: bucket,
                precondition: precondition
            )
        }
    }

    package func deleteDesignDocument(
        _ name: String,
        inBucket bucket: String,
        precondition: Precondition<String>
    ) async -> DesignDocumentOutcome {
        await outcome { () async throws(DesignDocumentError) in
            try await service.deleteDesignDocument(
                name,
                inBucket: bucket,
                precondition: precondition
            )
        }
    }

    package func setUpdateThresholds(
        _ thresholds: UpdateThresholds,
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async -> DesignDocumentOutcome {
        await outcome { () async throws(DesignDocumentError) in
            _ = try await service.setUpdateMinChanges(
                ofDesignDocument: name,
                inBucket: bucket,
                updateMinChanges: thresholds.active.map { Int(clamping: $0) },
                replicaUpdateMinChanges: thresholds.replica.map { Int(clamping: $0) }
            )
        }
    }

    private func outcome(
        _ change: () async throws(DesignDocumentError) -> Void
    ) async -> DesignDocumentOutcome {
        do throws(DesignDocumentError) {
            try await change()
            return .done
        } catch {
            let reason = error.description
            switch error.code {
            case .bucketUnknown, .documentUnknown: return .missing
            case .differs: return .differs
            case .invalid, .tooLarge:
                return .refused(error: "invalid_design_document", reason: reason)
            case .descriptorsExhausted: return .busy(reason)
            case .failed: return .failed(reason)
            }
        }
    }

    // MARK: Compaction

    package func compactViews(
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async -> DesignDocumentOutcome {
        await outcome { () async throws(DesignDocumentError) in
            try await service.compactViews(ofDesignDocument: name, inBucket: bucket)
        }
    }

    package func cancelCompaction(
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async -> DesignDocumentOutcome {
        await outcome { () async throws(DesignDocumentError) in
            try await service.cancelViewCompaction(ofDesignDocument: name, inBucket: bucket)
        }
    }
}

extension DesignDocumentCopy {
    fileprivate init(_ document: DesignDocument) {
        self.init(
            name: document.name,
            body: document.body,
            revision: document.revision.description
        )
    }
}
