internal import Bytes
internal import Orchestration
internal import Seams
package import Vocabulary
internal import Wire

/// Operations of an administrator on one document, on whatever node it is stored.
///
/// - The node is chosen by the map. If it answers that it does not serve the document, the call is
///   repeated once the map here may have caught up.
/// - A write without an answer may have been applied, so it is not repeated.
package final class DocumentAccess: Sendable {
    let cluster: Cluster

    init(_ cluster: Cluster) { self.cluster = cluster }

    /// How long to search for the node that serves the document.
    private static var timeoutNanoseconds: UInt64 { 2_500_000_000 }
    /// How long a node may take to answer; its disk may be slow.
    private static var callTimeoutNanoseconds: UInt64 { 10_000_000_000 }
    /// The pause between two attempts.
    private static var pauseNanoseconds: UInt64 { 50_000_000 }
    /// The largest value in a call: its bytes less the other fields.
    static var passedBytesMax: Int { NodeService.callBytesMax - 4_096 }

    /// The key of any document in the bucket, preferably on this node; nil if none is found.
    ///
    /// Below the feature level of the call (`PeerKind.level(of:)`), other nodes are not asked.
    package func randomKey(inBucket name: String) async -> [UInt8]? {
        if let key = cluster.dataPlane.randomKey(inBucket: name) { return key }
        for node in cluster.state.bucket(named: name)?.holders ?? [] where node != cluster.thisNode
        {
            let answer: KeyListing? = await cluster.calls.ask(
                PeerKind.randomKey,
                RandomKeyCall(bucket: name),
                to: node,
                timeoutNanoseconds: Self.callTimeoutNanoseconds
            )
            if case .keys(let keys) = answer, let key = keys.first { return key }
        }
        return nil
    }

    // MARK: Asking

    /// Has the node that serves the document carry out an operation.
    package func perform(
        _ action: DocumentAction,
        on key: [UInt8],
        inBucket name: String
    ) async -> DocumentOutcome {
        let call = DocumentCall(bucket: name, key: key, action: action)
        let deadline = cluster.monotonicNanoseconds + Self.timeoutNanoseconds
        while true {
            guard let bucket = cluster.state.bucket(named: call.bucket) else { return .noBucket }
            let vBucket = VBucketID(ofKey: call.key, count: bucket.placements.count)
            let owner = bucket[vBucket].chain.first
            if let owner {
                let outcome =
                    owner == cluster.thisNode ? await carryOut(call) : await ask(owner, call)
                guard outcome == .refused(.notMyVBucket) else { return outcome }
            }
            guard cluster.monotonicNanoseconds < deadline else {
                return .refused(.temporaryFailure)
            }
            await cluster.executor.sleep(nanoseconds: Self.pauseNanoseconds)
        }
    }

    private func ask(_ node: NodeNumber, _ call: DocumentCall) async -> DocumentOutcome {
        if case .write(let value, _, _, _, _) = call.action, value.count > Self.passedBytesMax {
            return .failed(tooLarge(node))
        }
        return await cluster.calls.ask(
            PeerKind.document,
            call,
            to: node,
            timeoutNanoseconds: Self.callTimeoutNanoseconds
        ) ?? .refused(.temporaryFailure)
    }

    /// The message for a document that does not fit into a call between nodes.
    private func tooLarge(_ node: NodeNumber) -> String {
        let record = cluster.state.node(number: node)
        let place = record.map { "\($0.host):\($0.ports.admin)" } ?? "another node"
        return "The document lives on \(place) and is too large to be passed on: ask there."
    }

    // MARK: Being asked

    /// Registers the handlers; on the control lane.
    func handleDocuments() {
        cluster.calls.handleCalls(PeerKind.document) { [weak self] _, bytes, answer in
            guard let self, let call = DocumentCall(message: bytes) else {
                return answer(DocumentOutcome.failed("The call is malformed.").encoded)
            }
            cluster.executor.spawn {
                var outcome = await self.carryOut(call)
                if case .found(let copy) = outcome, copy.value.count > Self.passedBytesMax {
                    outcome = .failed(self.tooLarge(self.cluster.thisNode))
                }
                answer(outcome.encoded)
            }
        }
        cluster.calls.handleCalls(PeerKind.listing) { [weak self] _, bytes, answer in
            guard let self, let call = ListingCall(message: bytes) else {
                return answer(KeyListing.failed("The call is malformed.").encoded)
            }
            cluster.executor.spawn { answer(await self.carryOut(call).encoded) }
        }
        cluster.calls.handleCalls(PeerKind.randomKey) { [weak self] _, bytes, answer in
            guard let self, let call = RandomKeyCall(message: bytes) else {
                return answer(KeyListing.failed("The call is malformed.").encoded)
            }
            let key = cluster.dataPlane.randomKey(inBucket: call.bucket)
            answer(KeyListing.keys(key.map { [$0] } ?? []).encoded)
        }
    }

    private func carryOut(_ call: DocumentCall) async -> DocumentOutcome {
        let outcome = await cluster.dataPlane.perform(
            call.action,
            on: call.key,
            inBucket: call.bucket
        )
        // The map may have a bucket that this node has not opened yet.
        let isComing = outcome == .noBucket && cluster.state.bucket(named: call.bucket) != nil
        return isComing ? .refused(.notMyVBucket) : outcome
    }
}
