internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// The bucket whose tombstones to purge, by UUID: another bucket may have its name by now.
struct PurgeCall: PeerPayload, Hashable {
    let uuid: String

    init(uuid: String) { self.uuid = uuid }

    init?(_ reader: inout ByteReader) {
        guard let uuid = reader.text() else { return nil }
        self.uuid = uuid
    }

    func append(to writer: ByteWriter) { writer.append(counted: uuid) }
}

/// A requested purge of all tombstones of a bucket, on every node with a part of it.
extension AdministrationService {
    private static var purgeTimeoutNanoseconds: UInt64 { 5_000_000_000 }
    private static var begun: [UInt8] { [1] }

    /// Starts a purge of the tombstones of any age on all nodes; it continues in the background.
    ///
    /// Consumers of changes that have not read these deletions have to start over.
    ///
    /// - Returns: Done if all nodes have begun, else which have not.
    package func purgeBucket(_ name: String) async -> BucketOutcome {
        guard let bucket = state.bucket(named: name) else { return .unknown }
        let call = PurgeCall(uuid: bucket.settings.uuid)
        var missing: [String] = []
        for node in state.servers(of: bucket) {
            let hasBegun =
                node.number == thisNode
                ? beginPurge(of: call.uuid) : await requestPurge(call, from: node.number)
            if !hasBegun { missing.append(node.otpNode) }
        }
        guard missing.isEmpty else {
            let names = missing.joined(separator: ", ")
            // Consumers start over because of the nodes that have begun.
            logEvent(
                .warning,
                .bucket,
                "A purge of all tombstones of bucket \"\(name)\" was requested; \(names) did not begin."
            )
            return .failed(
                "The purge has not begun on \(names): the bucket is being loaded there, or the node "
                    + "does not answer or has an older release. Retry."
            )
        }
        logEvent(.info, .bucket, "A purge of all tombstones of bucket \"\(name)\" began.")
        return .done
    }

    private func requestPurge(_ call: PurgeCall, from node: NodeNumber) async -> Bool {
        let result = await calls.call(
            PeerKind.purge,
            call.bytes,
            to: node,
            timeoutNanoseconds: Self.purgeTimeoutNanoseconds
        )
        guard case .success(Self.begun) = result else { return false }
        return true
    }

    func handlePurges() {
        calls.handleCalls(PeerKind.purge) { [weak self] _, bytes, answer in
            guard let self, let call = PurgeCall(bytes: bytes) else { return answer([]) }
            answer(beginPurge(of: call.uuid) ? Self.begun : [])
        }
    }

    private func beginPurge(of uuid: String) -> Bool {
        guard let bucket = state.buckets.first(where: { $0.settings.uuid == uuid }) else {
            return false
        }
        return dataPlane.purgeTombstones(ofBucket: bucket.settings.name)
    }
}
