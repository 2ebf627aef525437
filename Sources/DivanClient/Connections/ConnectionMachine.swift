package import Bytes
package import Vocabulary
package import Wire

/// The protocol of one connection as a state machine: frames and requests in, bytes and events out.
///
/// Requests are pipelined and answers are matched by opaque, because answers may overtake each
/// other: a durable write waits for other nodes, the requests after it do not.
///
/// - An event names a request by its ticket, each ticket at most once.
/// - After `failed` the connection must be closed; later frames are ignored.
package struct ConnectionMachine: Sendable {
    package enum Event: Sendable {
        /// Logged in: requests may be sent. The configuration is nil if the node has none yet.
        case ready(FeatureSet, configuration: [UInt8]?)
        case answered(ticket: UInt64, Answer)
        /// The server pushed a map.
        case pushed(bucket: String, configuration: [UInt8])
        case failed(Handshake.Failure)
    }

    private enum Phase {
        case login(Handshake)
        case ready
        case ended
    }

    private struct Pending {
        let ticket: UInt64
        let opcode: UInt8
    }

    private var phase: Phase
    private var pending: [UInt32: Pending] = [:]
    /// The opaque of the last request; that of the login's requests is 0.
    private var opaque: UInt32 = 0

    package init(_ login: Handshake.Login, nonce: String) {
        phase = .login(Handshake(login, nonce: nonce))
    }

    package var isReady: Bool { if case .ready = phase { true } else { false } }

    /// The number of unanswered requests.
    package var pendingCount: Int { pending.count }

    /// Begins the login; called once the connection is open.
    package func begin(_ output: ByteWriter) {
        if case .login(let handshake) = phase { handshake.begin(output) }
    }

    /// Sends a request; allowed only when ready.
    package mutating func send(
        _ request: Request,
        vBucket: VBucketID,
        ticket: UInt64,
        _ output: ByteWriter
    ) {
        precondition(isReady, "requests are sent only on a connection that is ready")
        repeat { opaque &+= 1 } while pending[opaque] != nil
        pending[opaque] = Pending(ticket: ticket, opcode: request.opcode.rawValue)
        request.append(to: output, vBucket: vBucket, opaque: opaque)
    }

    /// Handles the next received frame; nil if it causes no event.
    package mutating func handle(_ frame: Frame, _ output: ByteWriter) -> Event? {
        switch frame.header.magic {
        case .serverRequest: return handlePush(frame)
        case .response, .flexResponse: break
        default: return fail(.invalidMessage, "the server sent a frame that is not an answer")
        }
        switch phase {
        case .login(var handshake):
            do throws(Handshake.Failure) {
                switch try handshake.handle(frame, output) {
                case .more:
                    phase = .login(handshake)
                    return nil
                case .done(let features, let configuration):
                    phase = .ready
                    return .ready(features, configuration: configuration)
                }
            } catch {
                return fail(error.reason, error.description)
            }
        case .ready:
            guard let request = pending.removeValue(forKey: frame.opaque),
                request.opcode == frame.header.opcodeByte
            else { return fail(.invalidMessage, "the server's answer matches no request") }
            return .answered(ticket: request.ticket, Answer(frame))
        case .ended: return nil
        }
    }

    /// Handles received bytes that are not a valid frame.
    package mutating func handleInvalidFrame() -> Event {
        fail(.invalidMessage, "the server does not speak the memcached binary protocol")
    }

    /// Handles a request of the server: the only known one pushes a map, and expects no answer.
    private func handlePush(_ frame: Frame) -> Event? {
        if case .ended = phase { return nil }
        guard frame.header.opcodeByte == 0x01, !frame.value.isEmpty else { return nil }
        return .pushed(bucket: frame.key.text, configuration: frame.value.bytes)
    }

    private mutating func fail(_ reason: Handshake.Failure.Reason, _ text: String) -> Event {
        phase = .ended
        pending = [:]
        return .failed(Handshake.Failure(reason, text))
    }
}

extension Request {
    /// Appends the request's frame.
    func append(to output: ByteWriter, vBucket: VBucketID, opaque: UInt32) {
        let framing = ByteWriter(capacity: 16)
        if durability != nil || preservesExpiry {
            var words = FramingExtras()
            words.durability = durability
            words.preservesExpiry = preservesExpiry
            words.append(to: framing)
        }
        extras.withUnsafeBytes { extras in
            key.withUnsafeBytes { key in
                value.withUnsafeBytes { value in
                    RequestEncoder.append(
                        opcode,
                        to: output,
                        vBucket: vBucket,
                        opaque: opaque,
                        cas: cas,
                        framing: framing.view,
                        extras: ByteView(extras),
                        key: ByteView(key),
                        value: ByteView(value)
                    )
                }
            }
        }
    }
}

/// One command, independent of the node that it is sent to.
package struct Request: Sendable {
    package var opcode: Opcode
    package var key: [UInt8]
    package var value: [UInt8] = []
    package var extras: [UInt8] = []
    package var cas = CAS.none
    package var durability: DurabilityRequirement?
    package var preservesExpiry = false
    package var copy = KeyRouter.Copy.active
    /// Whether executing the command twice may differ from executing it once.
    package var isWrite: Bool
    /// Features that the request needs besides those of its options.
    package var features = FeatureSet()
    /// Whether to retry when the document is locked.
    package var waitsForLock = true

    package init(_ opcode: Opcode, key: [UInt8] = [], isWrite: Bool) {
        self.opcode = opcode
        self.key = key
        self.isWrite = isWrite
    }

    /// The features that the connection must have agreed on; without them the server could
    /// misinterpret the request.
    package var needs: FeatureSet {
        var needs = features
        if durability != nil { needs.insert(.syncReplication) }
        if preservesExpiry { needs.insert(.preserveTTL) }
        if durability != nil || preservesExpiry { needs.insert(.alternativeRequest) }
        return needs
    }

    /// Approximate memory of the request.
    package var byteCount: Int { key.count + value.count + 128 }
}

/// An answer that owns its bytes.
package struct Answer: Hashable, Sendable {
    package var status: UInt16
    package var cas: CAS
    package var datatype: Datatype
    package var extras: [UInt8]
    package var value: [UInt8]

    package init(_ frame: Frame) {
        status = frame.header.statusNumber
        cas = frame.cas
        datatype = frame.datatype
        extras = frame.extras.isEmpty ? [] : frame.extras.bytes
        value = frame.value.isEmpty ? [] : frame.value.bytes
    }

    package init(
        status: Status,
        cas: CAS = .none,
        datatype: Datatype = [],
        extras: [UInt8] = [],
        value: [UInt8] = []
    ) {
        self.status = status.rawValue
        self.cas = cas
        self.datatype = datatype
        self.extras = extras
        self.value = value
    }
}
