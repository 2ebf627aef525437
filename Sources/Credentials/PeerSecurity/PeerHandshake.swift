package import Bytes
internal import Crypto
package import Vocabulary
package import Wire

/// What this node says of itself, and what it proves it with.
package struct PeerSelf: Sendable {
    package var claim: PeerClaim
    /// Nil for a connection between strangers.
    package var secret: PeerSecret?

    package init(claim: PeerClaim, secret: PeerSecret?) {
        self.claim = claim
        self.secret = secret
    }
}

/// The first words between two nodes, after which each knows who the other is, and both have keys.
///
/// Three messages: hello, answer, finish; then records of `PeerCipher`. Keys come from an X25519
/// exchange made for this connection, the cluster's secret, and a hash of all that was said: version,
/// both claims (node, UUIDs, group, epoch), both nonces, the service asked for, and who began.
/// A machine: bytes in, bytes out; randomness is handed in.
///
/// - Nothing of the other side is believed, and no payload taken, before its proof was checked.
/// - `removed` is only reported where the cluster's secret proves it, as the node then gives up its
///   data.
/// - **Between strangers (`join`) there is no proof**: nobody who listens learns anything, but who is
///   on the other side is trusted on first contact. Whoever sends the secret through such a
///   connection must know by other means, or accept, whom it goes to.
package struct PeerHandshake: Sendable {
    package static let version: UInt16 = 1
    /// Bytes of randomness a handshake takes: a nonce and a private key.
    package static let diceCount = 64

    package enum Step: Sendable {
        /// More bytes are needed: so many in all, not counting the consumed ones.
        case waiting(needed: Int)
        /// The other side is who it claims to be. Output may hold our last message; records follow.
        case established(PeerClaim, PeerService, PeerCipher)
        /// Close; output may hold what the other side should know.
        case refused(PeerRefusal)
    }

    /// Whether a claim that the secret proves is welcome; asked by the responder.
    package typealias Judge = (PeerClaim, PeerService) -> PeerRefusal?

    private enum State {
        case awaitingHello
        case awaitingAnswer
        case awaitingFinish(PeerClaim, PeerService, PeerKeys.Session)
        case over
    }

    private let me: PeerSelf
    private let version: UInt16
    private let service: PeerService?
    private let expected: NodeNumber
    private let nonce: [UInt8]
    private let key: Curve25519.KeyAgreement.PrivateKey
    private var transcript: [UInt8] = []
    private var state: State

    private init(
        _ me: PeerSelf,
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
        self.me = me
        self.version = version
        self.service = service
        self.expected = expected
        self.nonce = Array(dice[..<32])
        self.key = key
        self.state = state
    }

    // MARK: Beginning

    /// The side that called; `start` makes its first message.
    ///
    /// - Parameters:
    ///   - me: With a secret for all services but `join`.
    ///   - service: What the connection is for.
    ///   - expected: Who is called; 0 for a stranger.
    ///   - dice: 64 random bytes, never used before.
    ///   - version: Ours, but in tests.
    /// - Returns: A handshake that has said nothing yet.
    package static func initiator(
        _ me: PeerSelf,
        service: PeerService,
        expected: NodeNumber,
        dice: [UInt8],
        version: UInt16 = PeerHandshake.version
    ) -> PeerHandshake {
        var me = me
        if service == .join { me.secret = nil }
        precondition(me.secret != nil || service == .join, "only strangers have no secret")
        return PeerHandshake(
            me,
            service: service,
            expected: expected,
            dice: dice,
            version: version,
            state: .awaitingAnswer
        )
    }

    /// The side that was called.
    package static func responder(
        _ me: PeerSelf,
        dice: [UInt8],
        version: UInt16 = PeerHandshake.version
    ) -> PeerHandshake {
        PeerHandshake(
            me,
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
            preconditionFailure("the side that called begins, once")
        }
        let hello = PeerGreeting.Hello(
            service: service.rawValue,
            expected: expected,
            claim: me.claim,
            nonce: nonce,
            key: Array(key.publicKey.rawRepresentation)
        )
        let early = me.secret.map { PeerKeys.early($0, "hello") }
        say(.hello(hello), output) { message in early.map { PeerKeys.proof(message, $0) } }
    }

    // MARK: Going on

    /// Takes what came; call again with what was not consumed and more, while it says `waiting`.
    package mutating func receive(
        _ input: ByteView,
        output: ByteWriter,
        judge: Judge
    ) -> (consumed: Int, step: Step) {
        switch PeerGreeting.next(in: input, version: version) {
        case .incomplete(let needed): return (0, .waiting(needed: needed))
        case .nonsense: return (input.count, end(.nonsense))
        case .otherVersion(let theirs):
            let refusal = PeerRefusal.otherVersion(have: version, theirs: theirs)
            if case .awaitingHello = state { tell(refusal, proved: false, output) }
            return (input.count, end(refusal))
        case .message(let message, let count):
            let bytes = input.slice(0, count)
            return (count, take(message, bytes, output: output, judge: judge))
        }
    }

    private mutating func take(
        _ message: PeerGreeting,
        _ bytes: ByteView,
        output: ByteWriter,
        judge: Judge
    ) -> Step {
        let unproved = bytes.slice(0, bytes.count - PeerGreeting.partCount).bytes
        let proof = bytes.dropFirst(unproved.count)
        switch (state, message) {
        case (.awaitingHello, .hello(let hello)):
            return take(hello, unproved, proof, output: output, judge: judge)
        case (.awaitingAnswer, .answer(let answer)):
            return take(answer, unproved, proof, output: output)
        case (.awaitingFinish(let claim, let service, let keys), .finish):
            guard PeerKeys.isProof(proof, of: transcript + unproved, keys.initiatorProof) else {
                return end(.wrongSecret)
            }
            state = .over
            let cipher = PeerCipher(sealing: keys.toInitiator, opening: keys.toResponder)
            return .established(claim, service, cipher)
        case (.awaitingAnswer, .refusal(let refusal)):
            return end(understand(refusal, unproved, proof))
        default: return end(.nonsense)
        }
    }

    /// The responder's part: whether the caller is one of us, and welcome.
    private mutating func take(
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
        let secret = service == .join ? nil : me.secret
        if service != .join {
            guard let secret else { return refuse(.notExpected, proved: false, output) }
            guard hello.claim.clusterUUID == me.claim.clusterUUID else {
                return refuse(.otherCluster, proved: false, output)
            }
            let key = PeerKeys.early(secret, "hello")
            guard PeerKeys.isProof(proof, of: unproved, key) else {
                return refuse(.wrongSecret, proved: false, output)
            }
            guard hello.expected == me.claim.node, hello.claim.node != me.claim.node else {
                return refuse(.notExpected, proved: true, output)
            }
        }
        if let refusal = judge(hello.claim, service) {
            return refuse(refusal, proved: service != .join, output)
        }
        let answer = PeerGreeting.Answer(
            claim: me.claim,
            nonce: nonce,
            key: Array(key.publicKey.rawRepresentation)
        )
        let (own, said) = (key, transcript)
        var session: PeerKeys.Session?
        say(.answer(answer), output) { message in
            session = PeerKeys.session(
                own: own,
                theirs: hello.key,
                secret: secret,
                transcript: said + message
            )
            return session.map { PeerKeys.proof(said + message, $0.responderProof) }
        }
        guard let session else { return end(.nonsense) }
        state = .awaitingFinish(hello.claim, service, session)
        return .waiting(needed: PeerGreeting.headerCount)
    }

    /// The initiator's part: whether it is the node that was called.
    private mutating func take(
        _ answer: PeerGreeting.Answer,
        _ unproved: [UInt8],
        _ proof: ByteView,
        output: ByteWriter
    ) -> Step {
        guard let service else { preconditionFailure("whoever called knows what for") }
        let session = PeerKeys.session(
            own: key,
            theirs: answer.key,
            secret: me.secret,
            transcript: transcript + unproved
        )
        guard let session else { return end(.nonsense) }
        guard PeerKeys.isProof(proof, of: transcript + unproved, session.responderProof) else {
            return end(.wrongSecret)
        }
        if service != .join {
            let theirs = answer.claim
            guard theirs.clusterUUID == me.claim.clusterUUID else { return end(.otherCluster) }
            let isCurrent = theirs.group == me.claim.group && theirs.epoch == me.claim.epoch
            guard theirs.node == expected, isCurrent || service == .epoch else {
                return end(.notExpected)
            }
        }
        transcript += unproved + proof.bytes
        let said = transcript
        say(.finish, output) { PeerKeys.proof(said + $0, session.initiatorProof) }
        state = .over
        let cipher = PeerCipher(sealing: session.toResponder, opening: session.toInitiator)
        return .established(answer.claim, service, cipher)
    }

    // MARK: Saying

    /// Appends a message with its proof, and remembers both.
    private mutating func say(
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
        tell(refusal, proved: proved, output)
        return end(refusal)
    }

    private func tell(_ refusal: PeerRefusal, proved: Bool, _ output: ByteWriter) {
        let writer = ByteWriter(capacity: 64)
        PeerGreeting.refusal(refusal.message).appendWithoutProof(version: version, to: writer)
        let unproved = writer.bytes
        let key = proved ? me.secret.map { PeerKeys.early($0, "refusal") } : nil
        output.append(unproved)
        // Bound to the hello that is refused, whose nonce makes it new.
        output.append(key.map { PeerKeys.proof(transcript + unproved, $0) } ?? PeerKeys.noProof)
    }

    private func understand(
        _ refusal: PeerGreeting.Refusal,
        _ unproved: [UInt8],
        _ proof: ByteView
    ) -> PeerRefusal {
        let understood = PeerRefusal(refusal, version: version)
        guard case .removed = understood else { return understood }
        guard let secret = me.secret else { return .notExpected }
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
        case .nonsense: .init(reason: 6, detail: 0)
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
        default: self = .nonsense
        }
    }
}
