internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary
internal import Wire

/// One document, wherever in the cluster it lives, for whoever administers.
///
/// - The map says whom to ask. Who was asked and does not serve it says so, and is asked again, or
///   another is, once the map here has caught up.
/// - A write that was sent and not answered may have been done: it is not sent again.
extension AdministrationService {
    /// How long the right node is looked for.
    private static var patience: UInt64 { 2_500_000_000 }
    /// How long a node may take; its disk may be slow.
    private static var callPatience: UInt64 { 10_000_000_000 }
    /// Between two questions.
    private static var pause: UInt64 { 50_000_000 }
    /// What a frame between nodes takes, less what stands around the value.
    static var passedBytesMax: Int { PeerFrame.payloadBytesMax - 4_096 }

    package func readDocument(_ key: [UInt8], inBucket name: String) async -> DocumentReading {
        let call = DocumentCall(bucket: name, key: key, action: .read)
        switch await perform(call) {
        case .found(let meta, let value): return .found(meta, value: value)
        case .notFound: return .notFound
        case .noBucket: return .noBucket
        case .failed(let reason): return .failed(reason)
        case .written, .locked, .tooBig, .temporaryFailure, .notHere, .key:
            return .temporaryFailure
        }
    }

    package func writeDocument(
        _ key: [UInt8],
        value: [UInt8],
        flags: UInt32,
        expiry: UInt32,
        preserveExpiry: Bool,
        inBucket name: String
    ) async -> DocumentWriting {
        let action = DocumentCall.Action.write(
            value: value,
            flags: flags,
            expiry: expiry,
            preservesExpiry: preserveExpiry
        )
        return Self.writing(await perform(DocumentCall(bucket: name, key: key, action: action)))
    }

    package func deleteDocument(_ key: [UInt8], inBucket name: String) async -> DocumentWriting {
        Self.writing(await perform(DocumentCall(bucket: name, key: key, action: .delete)))
    }

    /// The key of some document: of this node's if it has any.
    package func randomKey(inBucket name: String) async -> [UInt8]? {
        if let key = dataPlane.randomKey(inBucket: name) { return key }
        let call = DocumentCall(bucket: name, key: [], action: .randomKey)
        for node in state.bucket(named: name)?.holders ?? [] where node != thisNode {
            if case .key(let key) = await ask(node, call) { return key }
        }
        return nil
    }

    private static func writing(_ outcome: DocumentOutcome) -> DocumentWriting {
        switch outcome {
        case .written(let cas): .written(cas)
        case .notFound: .notFound
        case .noBucket: .noBucket
        case .locked: .locked
        case .tooBig: .tooBig
        case .failed(let reason): .failed(reason)
        case .found, .temporaryFailure, .notHere, .key: .temporaryFailure
        }
    }

    // MARK: Asking

    /// Has whoever serves the document do it.
    private func perform(_ call: DocumentCall) async -> DocumentOutcome {
        let deadline = environment.time.monotonicNanoseconds() + Self.patience
        while true {
            guard let bucket = state.bucket(named: call.bucket) else { return .noBucket }
            let vBucket = VBucketID(ofKey: call.key, count: bucket.placements.count)
            let owner = bucket[vBucket].chain.first
            if let owner {
                let outcome =
                    owner == thisNode ? await carryOut(call) : await ask(owner, call)
                guard outcome == .notHere else { return outcome }
            }
            guard environment.time.monotonicNanoseconds() < deadline else {
                return .temporaryFailure
            }
            await executor.sleep(nanoseconds: Self.pause)
        }
    }

    private func ask(_ node: NodeNumber, _ call: DocumentCall) async -> DocumentOutcome {
        if case .write(let value, _, _, _) = call.action, value.count > Self.passedBytesMax {
            return .failed(tooLarge(node))
        }
        let result = await calls.call(
            PeerKind.document,
            call.bytes,
            to: node,
            timeoutNanoseconds: Self.callPatience
        )
        guard case .success(let bytes) = result, let outcome = DocumentOutcome(bytes: bytes) else {
            return .temporaryFailure
        }
        return outcome
    }

    /// A document may be larger than what goes between nodes at once.
    private func tooLarge(_ node: NodeNumber) -> String {
        let record = state.node(number: node)
        let place = record.map { "\($0.host):\($0.ports.admin)" } ?? "another node"
        return "The document lives on \(place) and is too large to be passed on: ask there."
    }

    // MARK: Being asked

    /// On the control lane.
    func handleDocuments() {
        calls.handleCalls(PeerKind.document) { [weak self] _, bytes, answer in
            guard let self, let call = DocumentCall(bytes: bytes) else {
                return answer(DocumentOutcome.failed("nonsense").bytes)
            }
            executor.spawn {
                var outcome = await self.carryOut(call)
                if case .found(_, let value) = outcome, value.count > Self.passedBytesMax {
                    outcome = .failed(self.tooLarge(self.thisNode))
                }
                answer(outcome.bytes)
            }
        }
        calls.handleCalls(PeerKind.listing) { [weak self] _, bytes, answer in
            guard let self, let call = ListingCall(bytes: bytes) else {
                return answer(ListingOutcome.failed("nonsense").bytes)
            }
            executor.spawn { answer(await self.carryOut(call).bytes) }
        }
    }

    private func carryOut(_ call: DocumentCall) async -> DocumentOutcome {
        let name = call.bucket
        switch call.action {
        case .read:
            switch await dataPlane.read(call.key, inBucket: name) {
            case .found(let meta, let value): return .found(meta, value: value)
            case .notFound: return .notFound
            case .noBucket: return unopened(name)
            case .temporaryFailure: return .temporaryFailure
            case .notHere: return .notHere
            case .failed(let reason): return .failed(reason)
            }
        case .write(let value, let flags, let expiry, let preservesExpiry):
            let writing = await dataPlane.write(
                call.key,
                value: value,
                flags: flags,
                expiry: expiry,
                preserveExpiry: preservesExpiry,
                inBucket: name
            )
            return outcome(of: writing, name)
        case .delete:
            return outcome(of: await dataPlane.delete(call.key, inBucket: name), name)
        case .randomKey:
            return dataPlane.randomKey(inBucket: name).map(DocumentOutcome.key) ?? .notFound
        }
    }

    private func outcome(of writing: DocumentWriting, _ name: String) -> DocumentOutcome {
        switch writing {
        case .written(let cas): .written(cas)
        case .notFound: .notFound
        case .noBucket: unopened(name)
        case .locked: .locked
        case .tooBig: .tooBig
        case .temporaryFailure: .temporaryFailure
        case .notHere: .notHere
        case .failed(let reason): .failed(reason)
        }
    }

    /// A bucket that the map has, and this node not yet, comes.
    private func unopened(_ name: String) -> DocumentOutcome {
        state.bucket(named: name) == nil ? .noBucket : .notHere
    }
}
