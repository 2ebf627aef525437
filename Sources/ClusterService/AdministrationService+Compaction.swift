internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// The bucket to compact, by UUID: another bucket may have its name by now.
struct CompactCall: PeerPayload, Hashable {
    let uuid: String

    init(uuid: String) { self.uuid = uuid }

    init?(_ reader: inout ByteReader) {
        guard let uuid = reader.text() else { return nil }
        self.uuid = uuid
    }

    func append(to writer: ByteWriter) { writer.append(counted: uuid) }
}

/// Compaction of a bucket, on every node with a part of it.
extension AdministrationService {
    private static var compactionTimeoutNanoseconds: UInt64 { 5_000_000_000 }
    private static var begun: [UInt8] { [1] }

    /// Starts compaction of the documents and of all views on all nodes; it continues in the
    /// background.
    ///
    /// If a node has not begun with the views, because it has no indexes or they are not open, this
    /// is only logged: each node compacts its indexes by itself too.
    ///
    /// - Returns: As `compactBucket`.
    package func compactBucketAndViews(_ name: String) async -> BucketOutcome {
        let outcome = await compactBucket(name)
        guard case .done = outcome else { return outcome }
        for document in designDocuments(ofBucket: name) ?? [] {
            do throws(DesignDocumentError) {
                try await compactViews(ofDesignDocument: document.name, inBucket: name)
            } catch {
                // A document that was deleted meanwhile has no views any more.
                guard error.code == .failed else { continue }
                logEvent(
                    .warning,
                    .bucket,
                    "Views of design document \"\(document.name)\" of bucket \"\(name)\": \(error)"
                )
            }
        }
        return .done
    }

    /// Starts compaction of the documents on all nodes; it continues in the background.
    ///
    /// - Returns: Done if all nodes have begun, else which have not.
    package func compactBucket(_ name: String) async -> BucketOutcome {
        guard let bucket = state.bucket(named: name) else { return .unknown }
        let call = CompactCall(uuid: bucket.settings.uuid)
        beginCompaction(of: call.uuid)
        var missing: [String] = []
        for node in state.servers(of: bucket) where node.number != thisNode {
            let result = await calls.call(
                PeerKind.compact,
                call.bytes,
                to: node.number,
                timeoutNanoseconds: Self.compactionTimeoutNanoseconds
            )
            if case .success(Self.begun) = result { continue }
            missing.append(node.otpNode)
        }
        guard missing.isEmpty else {
            let names = missing.joined(separator: ", ")
            return .failed("Compaction has begun, but \(names) did not answer. Retry.")
        }
        logEvent(.info, .bucket, "Compaction of bucket \"\(name)\" began.")
        return .done
    }

    func handleCompaction() {
        calls.handleCalls(PeerKind.compact) { [weak self] _, bytes, answer in
            guard let self, let call = CompactCall(bytes: bytes) else { return answer([]) }
            answer(beginCompaction(of: call.uuid) ? Self.begun : [])
        }
    }

    @discardableResult
    private func beginCompaction(of uuid: String) -> Bool {
        guard let bucket = state.buckets.first(where: { $0.settings.uuid == uuid }) else {
            return false
        }
        dataPlane.compact(bucket: bucket.settings.name)
        return true
    }
}
