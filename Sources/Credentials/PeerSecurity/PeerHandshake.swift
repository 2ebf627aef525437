package import Bytes
internal import Crypto
package import Vocabulary
package import Wire

/// What this node claims to be, and the secret that proves it.
package struct PeerIdentityProof: Sendable {
    package var claim: PeerClaim
    /// Nil for a connection without authentication.
    package var secret: PeerSecret?

    package init(claim: PeerClaim, secret: PeerSecret?) {
        self.claim = claim
        self.secret = secret
    }
}

/// The handshake that authenticates two nodes to each other and agrees on keys.
///
/// Three messages: hello, answer, finish; then records of `PeerCipher`. The keys are derived from
/// an X25519 exchange made for this connection, the cluster's secret, and a hash of all messages,
/// which cover version, both claims (node, UUIDs, group, epoch), both nonces, the requested service
/// and the roles. A state machine: bytes in, bytes out; random bytes are passed in.
///
/// - No claim of the other side is trusted, and no payload accepted, before its proof is verified.
/// - `removed` is reported only if the cluster's secret proves it, because the node then discards
///   its data.
/// - **The service `join` has no proof**: an eavesdropper learns nothing, but the other side is
///   trusted on first contact. A node that sends the secret through such a connection must know by
///   other means which node receives it, or accept an unknown receiver.
package struct PeerHandshake: Sendable {
    package static let version: UInt16 = 1
    /// Random bytes that a handshake needs: 32 for a nonce and 32 for a private key.
    package static let diceCount = 64

    package enum Step: Sendable {
        /// More bytes are needed: `needed` in all, without the consumed ones.
        case waiting(needed: Int)
        /// The other side has proved its claim. Send the output, which may hold this side's last
        /// message; records follow.
        case established(PeerClaim, PeerService, PeerCipher)
        /// Send the output, which may hold a message that explains the refusal, and close.
        case refused(PeerRefusal)
    }

    /// Called for a proved claim, and for the claim of an unknown caller: returns why it is
    /// refused, or nil to accept it.
    package typealias Judge = (PeerClaim, PeerService) -> PeerRefusal?

    private enum State {
        case awaitingHello
        case awaitingAnswer
        case awaitingFinish(PeerClaim, PeerService, PeerKeys.Session)
        case over
    }

    private let identity: PeerIdentityProof
    private let version: UInt16
    private let service: PeerService?
    private let expected: NodeNumber
    private let nonce: [UInt8]
    private let key: Curve25519.KeyAgreement.PrivateKey
    private var transcript: [UInt8] = []
    private var state: State

    private init(
        _ identity: PeerIdentityProof,
        service: PeerService?,
        expected: NodeNumber,
        dice: [UInt8],
        version: UInt16,
        state: State
    ) {
        precondition(dice.count == PeerHandshake.diceCount, "a handshake takes 64 random bytes")
        let secretHalf = Array(dice[32...])
        guard let key = try? Curve25519.KeyAgreement.PrivateKey(rawRepresentation: secretHalf)
        else { preconditionFailure("any 32 bytes are a private key") }
        self.identity = identity
        self.version = version
        self.service = service
        self.expected = expected
        self.nonce = Array(dice[..<32])
        self.key = key
        self.state = state
    }

    // MARK: Start

    /// The side that opened the connection; `start` makes its first message.
    ///
    /// - Parameters:
    ///   - identity: This node; has a secret for all services but `join`.
    ///   - service: The requested service.
    ///   - expected: The called node; 0 if its number is not known.
    ///   - dice: 64 random bytes, never used before.
    ///   - version: Differs from this build's version only in tests.
    /// - Returns: A handshake that has sent nothing yet.
    package static func initiator(
        _ identity: PeerIdentityProof,
        service: PeerService,
        expected: NodeNumber,
        dice: [UInt8],
        version: UInt16 = PeerHandshake.version
    ) -> PeerHandshake {
        var identity = identity
        if service == .join { identity.secret = nil }
        precondition(identity.secret != nil || service == .join, "only join needs no secret")
        return PeerHandshake(
            identity,
            service: service,
            expected: expected,
            dice: dice,
            version: version,
            state: .awaitingAnswer
        )
    }

    /// The side that accepted the connection; `dice` as for `initiator`.
    package static func responder(
        _ identity: PeerIdentityProof,
        dice: [UInt8],
        version: UInt16 = PeerHandshake.version
    ) -> PeerHandshake {
        PeerHandshake(
            identity,
            service: nil,
            expected: NodeNumber(0),
            dice: dice,
            version: version,
            state: .awaitingHello
        )
    }

    /// Appends the initiator's first message.
    package mutating func start(output: ByteWriter) {
        guard let service, transcript.isEmpty else {
            preconditionFailure("only the initiator starts, and only once")
        }
        let hello = PeerGreeting.Hello(
            service: service.rawValue,
            expected: expected,
            claim: identity.claim,
            nonce: nonce,
            key: Array(key.publicKey.rawRepresentation)
        )
        let early = identity.secret.map { PeerKeys.early($0, "hello") }
        send(.hello(hello), output) { message in early.map { PeerKeys.proof(message, $0) } }
    }

    // MARK: Received messages

    /// Handles received bytes.
    ///
    /// While it returns `waiting`, call it again with the unconsumed bytes and more.
    package mutating func receive(
        _ input: ByteView,
        output: ByteWriter,
        judge: Judge
    ) -> (consumed: Int, step: Step) {
        switch PeerGreeting.next(in: input, version: version) {
        case .incomplete(let needed): return (0, .waiting(needed: needed))
        case .invalid: return (input.count, end(.invalidHandshake))
        case .otherVersion(let theirs):
            let refusal = PeerRefusal.otherVersion(have: version, theirs: theirs)
            if case .awaitingHello = state { sendRefusal(refusal, proved: false, output) }
            return (input.count, end(refusal))
        case .message(let message, let count):
            let bytes = input.slice(0, count)
            return (count, handle(message, bytes, output: output, judge: judge))
        }
    }

    private mutating func handle(
        _ message: PeerGreeting,
        _ bytes: ByteView,
        output: ByteWriter,
        judge: Judge
    ) -> Step {
        let unproved = bytes.slice(0, bytes.count - PeerGreeting.partCount).bytes
        let proof = bytes.dropFirst(unproved.count)
        switch (state, message) {
        case (.awaitingHello, .hello(let hello)):
            return handleHello(hello, unproved, proof, output: output, judge: judge)
        case (.awaitingAnswer, .answer(let answer)):
            return handleAnswer(answer, unproved, proof, output: output, judge: judge)
        case (.awaitingFinish(let claim, let service, let keys), .finish):
            guard PeerKeys.isProof(proof, of: transcript + unproved, keys.initiatorProof) else {
                return end(.wrongSecret)
            }
            state = .over
            let cipher = PeerCipher(sealing: keys.toInitiator, opening: keys.toResponder)
            return .established(claim, service, cipher)
        case (.awaitingAnswer, .refusal(let refusal)):
            return end(verifiedRefusal(refusal, unproved, proof))
        default: return end(.invalidHandshake)
        }
    }

    /// Runs on the responder: checks the initiator's proof and claim, and answers.
    private mutating func handleHello(
        _ hello: PeerGreeting.Hello,
        _ unproved: [UInt8],
        _ proof: ByteView,
        output: ByteWriter,
        judge: Judge
    ) -> Step {
        transcript = unproved + proof.bytes
        guard let service = PeerService(rawValue: hello.service) else {
            return refuse(.notExpected, proved: false, output)
        }
        let secret = service == .join ? nil : identity.secret
        if service != .join {
            guard let secret else { return refuse(.notExpected, proved: false, output) }
            guard hello.claim.clusterUUID == identity.claim.clusterUUID else {
                return refuse(.otherCluster, proved: false, output)
            }
            let key = PeerKeys.early(secret, "hello")
            guard PeerKeys.isProof(proof, of: unproved, key) else {
                return refuse(.wrongSecret, proved: false, output)
            }
            guard hello.expected == identity.claim.node, hello.claim.node != identity.claim.node
            else {
                return refuse(.notExpected, proved: true, output)
            }
        }
        if let refusal = judge(hello.claim, service) {
            return refuse(refusal, proved: service != .join, output)
        }
        let answer = PeerGreeting.Answer(
            claim: identity.claim,
            nonce: nonce,
            key: Array(key.publicKey.rawRepresentation)
        )
        let (own, earlier) = (key, transcript)
        var session: PeerKeys.Session?
        send(.answer(answer), output) { message in
            session = PeerKeys.session(
                own: own,
                theirs: hello.key,
                secret: secret,
                transcript: earlier + message
            )
            return session.map { PeerKeys.proof(earlier + message, $0.responderProof) }
        }
        guard let session else { return end(.invalidHandshake) }
        state = .awaitingFinish(hello.claim, service, session)
        return .waiting(needed: PeerGreeting.headerCount)
    }

    /// Runs on the initiator: checks that the expected node has answered, and finishes.
    private mutating func handleAnswer(
        _ answer: PeerGreeting.Answer,
        _ unproved: [UInt8],
        _ proof: ByteView,
        output: ByteWriter,
        judge: Judge
    ) -> Step {
        guard let service else { preconditionFailure("an initiator has a service") }
        let session = PeerKeys.session(
            own: key,
            theirs: answer.key,
            secret: identity.secret,
            transcript: transcript + unproved
        )
        guard let session else { return end(.invalidHandshake) }
        guard PeerKeys.isProof(proof, of: transcript + unproved, session.responderProof) else {
            return end(.wrongSecret)
        }
        if service != .join {
            let theirs = answer.claim
            guard theirs.clusterUUID == identity.claim.clusterUUID else {
                return end(.otherCluster)
            }
            let isCurrent =
                theirs.group == identity.claim.group && theirs.epoch == identity.claim.epoch
            guard theirs.node == expected, isCurrent || service == .epoch else {
                return end(.notExpected)
            }
            if let refusal = judge(theirs, service) { return end(refusal) }
        }
        transcript += unproved + proof.bytes
        let earlier = transcript
        send(.finish, output) { PeerKeys.proof(earlier + $0, session.initiatorProof) }
        state = .over
        let cipher = PeerCipher(sealing: session.toResponder, opening: session.toInitiator)
        return .established(answer.claim, service, cipher)
    }

    // MARK: Sent messages

    /// Appends a message and its proof to the output and to the transcript.
    private mutating func send(
        _ message: PeerGreeting,
        _ output: ByteWriter,
        proof: ([UInt8]) -> [UInt8]?
    ) {
        let writer = ByteWriter(capacity: PeerGreeting.bytesMax)
        message.appendWithoutProof(version: version, to: writer)
        let unproved = writer.bytes
        let whole = unproved + (proof(unproved) ?? PeerKeys.noProof)
        transcript += whole
        output.append(whole)
    }

    private mutating func end(_ refusal: PeerRefusal) -> Step {
        state = .over
        return .refused(refusal)
    }

    private mutating func refuse(
        _ refusal: PeerRefusal,
        proved: Bool,
        _ output: ByteWriter
    ) -> Step {
        sendRefusal(refusal, proved: proved, output)
        return end(refusal)
    }

    private func sendRefusal(_ refusal: PeerRefusal, proved: Bool, _ output: ByteWriter) {
        let writer = ByteWriter(capacity: 64)
        PeerGreeting.refusal(refusal.message).appendWithoutProof(version: version, to: writer)
        let unproved = writer.bytes
        let key = proved ? identity.secret.map { PeerKeys.early($0, "refusal") } : nil
        output.append(unproved)
        // The proof covers the refused hello, whose nonce prevents a replay.
        output.append(key.map { PeerKeys.proof(transcript + unproved, $0) } ?? PeerKeys.noProof)
    }

    /// The refusal that a message carries.
    ///
    /// An unproved `removed` becomes `wrongSecret`, or `notExpected` if this node has no secret to
    /// verify it with.
    private func verifiedRefusal(
        _ refusal: PeerGreeting.Refusal,
        _ unproved: [UInt8],
        _ proof: ByteView
    ) -> PeerRefusal {
        let understood = PeerRefusal(refusal, version: version)
        guard case .removed = understood else { return understood }
        guard let secret = identity.secret else { return .notExpected }
        let key = PeerKeys.early(secret, "refusal")
        let isProved = PeerKeys.isProof(proof, of: transcript + unproved, key)
        return isProved ? understood : .wrongSecret
    }
}

extension PeerRefusal {
    fileprivate var message: PeerGreeting.Refusal {
        switch self {
        case .wrongSecret: .init(reason: 1, detail: 0)
        case .otherCluster: .init(reason: 2, detail: 0)
        case .removed(let epoch): .init(reason: 3, detail: epoch)
        case .otherVersion(let have, _): .init(reason: 4, detail: UInt64(have))
        case .notExpected: .init(reason: 5, detail: 0)
        case .invalidHandshake: .init(reason: 6, detail: 0)
        case .levelTooLow(let required): .init(reason: 7, detail: UInt64(required.number))
        }
    }

    fileprivate init(_ message: PeerGreeting.Refusal, version: UInt16) {
        switch message.reason {
        case 1: self = .wrongSecret
        case 2: self = .otherCluster
        case 3: self = .removed(epoch: message.detail)
        case 4:
            let theirs = UInt16(truncatingIfNeeded: message.detail)
            self = .otherVersion(have: version, theirs: theirs)
        case 5: self = .notExpected
        case 7:
            let level = UInt16(truncatingIfNeeded: message.detail)
            self = .levelTooLow(required: FeatureLevel(level))
        default: self = .invalidHandshake
        }
    }
}
