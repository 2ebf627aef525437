package import Bytes
package import Vocabulary
package import Wire

/// The handshake in which two nodes introduce themselves on a secured connection.
///
/// Two messages: hello, and an answer or a refusal. Each side knows already which public key the other
/// one has proved; here each says which node it is, and the validation compares the two. A state machine:
/// bytes in, bytes out.
///
/// - The validation knows the keys of the agreed state: a node that says another's number is refused.
/// - `removed` makes a node discard its data. It counts only from a node whose key the caller expected.
/// - The service `join` is for nodes that do not know each other: any key is accepted, and the messages
///   of that service prove more.
package struct PeerHandshake: Sendable {
    package static let version: UInt16 = 2

    package enum Step: Sendable {
        /// More bytes are needed: `needed` in all, without the consumed ones.
        case waiting(needed: Int)
        /// The other side's claim is accepted. Send the output; the service's content follows.
        case established(PeerClaim, NodeService.Connection)
        /// Send the output, which may hold a message that explains the refusal, and close.
        case refused(PeerRefusal)
    }

    /// Returns why a claim is refused, or nil to accept it.
    package typealias Validation = (PeerClaim, NodeService.Connection) -> PeerRefusal?

    private enum Role {
        case initiator(NodeService.Connection, expected: NodeNumber)
        case responder
    }

    private let claim: PeerClaim
    private let version: UInt16
    private let role: Role

    private init(_ claim: PeerClaim, _ role: Role, _ version: UInt16) {
        self.claim = claim
        self.role = role
        self.version = version
    }

    /// The side that opened the connection; `start` makes its message.
    ///
    /// - Parameters:
    ///   - claim: This node.
    ///   - service: The requested service.
    ///   - expected: The called node; 0 if its number is not known.
    ///   - version: Differs from this build's version only in tests.
    /// - Returns: A handshake that has sent nothing yet.
    package static func initiator(
        _ claim: PeerClaim,
        service: NodeService.Connection,
        expected: NodeNumber,
        version: UInt16 = PeerHandshake.version
    ) -> PeerHandshake {
        PeerHandshake(claim, .initiator(service, expected: expected), version)
    }

    /// The side that accepted the connection.
    package static func responder(
        _ claim: PeerClaim,
        version: UInt16 = PeerHandshake.version
    ) -> PeerHandshake {
        PeerHandshake(claim, .responder, version)
    }

    /// Appends the initiator's message; the responder has none.
    package func start(output: ByteWriter) {
        guard case .initiator(let service, let expected) = role else { return }
        let hello = PeerGreeting.Hello(service: service.rawValue, expected: expected, claim: claim)
        PeerGreeting.hello(hello).append(version: version, to: output)
    }

    /// Handles received bytes.
    ///
    /// While it returns `waiting`, call it again with the unconsumed bytes and more.
    package func receive(
        _ input: ByteView,
        output: ByteWriter,
        validate: Validation
    ) -> (consumed: Int, step: Step) {
        switch PeerGreeting.next(in: input, version: version) {
        case .incomplete(let needed): return (0, .waiting(needed: needed))
        case .invalid: return (input.count, .refused(.invalidHandshake))
        case .otherVersion(let theirs):
            let refusal = PeerRefusal.otherVersion(have: version, theirs: theirs)
            guard case .responder = role else { return (input.count, .refused(refusal)) }
            return (input.count, refuse(refusal, output))
        case .message(let message, let count):
            switch (role, message) {
            case (.responder, .hello(let hello)): return (count, answer(hello, output, validate))
            case (.initiator(let service, let expected), .answer(let theirs)):
                return (count, check(theirs, service, expected, validate))
            case (.initiator(let service, _), .refusal(let refusal)):
                return (count, .refused(understood(refusal, service)))
            default: return (count, .refused(.invalidHandshake))
            }
        }
    }

    /// Runs on the responder.
    private func answer(_ hello: PeerGreeting.Hello, _ output: ByteWriter, _ validate: Validation)
        -> Step
    {
        guard let service = NodeService.Connection(rawValue: hello.service) else {
            return refuse(.notExpected, output)
        }
        if service != .join {
            guard !claim.clusterUUID.isEmpty else { return refuse(.notExpected, output) }
            guard hello.claim.clusterUUID == claim.clusterUUID else {
                return refuse(.otherCluster, output)
            }
            guard hello.expected == claim.node, hello.claim.node != claim.node else {
                return refuse(.notExpected, output)
            }
        }
        if let refusal = validate(hello.claim, service) { return refuse(refusal, output) }
        PeerGreeting.answer(claim).append(version: version, to: output)
        return .established(hello.claim, service)
    }

    /// Runs on the initiator: checks that the expected node has answered.
    private func check(
        _ theirs: PeerClaim,
        _ service: NodeService.Connection,
        _ expected: NodeNumber,
        _ validate: Validation
    ) -> Step {
        if service != .join {
            guard theirs.clusterUUID == claim.clusterUUID else { return .refused(.otherCluster) }
            let isCurrent = theirs.group == claim.group && theirs.epoch == claim.epoch
            guard theirs.node == expected, isCurrent || service == .epoch else {
                return .refused(.notExpected)
            }
            if let refusal = validate(theirs, service) { return .refused(refusal) }
        }
        return .established(theirs, service)
    }

    private func refuse(_ refusal: PeerRefusal, _ output: ByteWriter) -> Step {
        PeerGreeting.refusal(refusal.message).append(version: version, to: output)
        return .refused(refusal)
    }

    /// The refusal that a message carries; a node without an expected key cannot say `removed`.
    private func understood(_ refusal: PeerGreeting.Refusal, _ service: NodeService.Connection)
        -> PeerRefusal
    {
        let understood = PeerRefusal(refusal, version: version)
        if case .removed = understood, service == .join { return .notExpected }
        return understood
    }
}
