package import ClusterService
internal import Orchestration
package import ScriptProcesses
internal import ViewService
internal import Vocabulary

/// Tries map functions in the script processes of this node.
package struct PoolMapTrials: MapTrialRunner {
    private let service: AdministrationService
    private let scripts: @Sendable () -> ScriptPool?

    /// Reads documents by `service`, and runs functions by `scripts`.
    ///
    /// - Parameters:
    ///   - service: The node's administration.
    ///   - scripts: The node's script processes, which a node without views makes for the first
    ///     trial; nil once the node stops, or if it cannot run functions.
    package init(
        service: AdministrationService,
        scripts: @escaping @Sendable () -> ScriptPool?
    ) {
        self.service = service
        self.scripts = scripts
    }

    package func tryMap(
        _ map: String,
        onDocument document: [UInt8],
        inBucket bucket: String
    ) async -> MapTrialOutcome {
        guard let record = service.state.bucket(named: bucket) else { return .documentUnknown }
        let copy: DocumentCopy
        switch await service.documents.perform(.read, on: document, inBucket: bucket) {
        case .found(let found): copy = found
        case .noBucket, .refused(.notFound): return .documentUnknown
        case .failed(let text): return .unavailable(text)
        case .refused, .written, .unchanged:
            return .unavailable("The document cannot be read now. Retry in a moment.")
        }
        guard let scripts = scripts() else {
            return .unavailable("This node cannot run functions now. Its log states the reason.")
        }
        let trial = await scripts.tryMap(
            map,
            on: copy,
            key: document,
            vBucket: VBucketID(ofKey: document, count: record.placements.count),
            bucket: record.settings.uuid
        )
        switch trial {
        case .ended(let rows, let log): return .ended(rows: rows, log: log)
        case .failed(let line, let text, let log):
            return .failed(line: Int(line), reason: text, log: log)
        case .omitted:
            let reason = "Views omit the document, because its id is not UTF-8."
            return .failed(line: 0, reason: reason, log: [])
        }
    }
}
