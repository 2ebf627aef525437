package import Bytes
package import Vocabulary
package import Wire

/// One connection's protocol as a machine: frames and requests in, bytes and events out.
///
/// Requests are pipelined and their answers matched by opaque, because answers may overtake each
/// other: a durable write waits for other nodes, and what stands behind it does not.
///
/// - An event names a request by its ticket, each ticket at most once.
/// - After `failed` the connection is to be closed; nothing that comes later is looked at.
package struct ConnectionMachine: Sendable {
    package enum Event: Sendable {
        /// Requests may come now.
        case ready(FeatureSet, configuration: [UInt8]?)
        case answered(ticket: UInt64, Answer)
        /// The server sent a map nobody asked for.
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
    /// Of the last request; those of the login are 0.
    private var opaque: UInt32 = 0

    package init(_ login: Handshake.Login, nonce: String) {
        phase = .login(Handshake(login, nonce: nonce))
    }

    package var isReady: Bool { if case .ready = phase { true } else { false } }

    /// How many requests have no answer yet.
    package var pendingCount: Int { pending.count }

    /// The connection is open: begins the login.
    package func begin(_ output: ByteWriter) {
        if case .login(let handshake) = phase { handshake.begin(output) }
    }

    /// Sends a request; only when ready.
    package mutating func send(
        _ request: Request,
        vBucket: VBucketID,
        ticket: UInt64,
        _ output: ByteWriter
    ) {
        precondition(isReady, "requests are for connections that are ready")
        repeat { opaque &+= 1 } while pending[opaque] != nil
        pending[opaque] = Pending(ticket: ticket, opcode: request.opcode.rawValue)
        request.append(to: output, vBucket: vBucket, opaque: opaque)
    }

    /// Takes in the next frame.
    package mutating func take(_ frame: Frame, _ output: ByteWriter) -> Event? {
        switch frame.header.magic {
        case .serverRequest: return takePush(frame)
        case .response, .flexResponse: break
        default: return fail(.nonsense, "the server sent something that is no answer")
        }
        switch phase {
        case .login(var handshake):
            do throws(Handshake.Failure) {
                switch try handshake.take(frame, output) {
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
            else { return fail(.nonsense, "the server answered what nobody asked") }
            return .answered(ticket: request.ticket, Answer(frame))
        case .ended: return nil
        }
    }

    /// Bytes came that are no frame.
    package mutating func takeNonsense() -> Event {
        fail(.nonsense, "the server does not speak the memcached binary protocol")
    }

    /// The only thing that servers ask is to look at a new map; they expect no answer.
    private func takePush(_ frame: Frame) -> Event? {
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
    /// Appends the frame.
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
