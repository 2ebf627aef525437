internal import Bytes
internal import NIOCore
internal import NIOWebSocket

/// Joins the frames of a WebSocket's client to messages, and checks what RFC 6455 requires of them.
struct WebSocketFragments {
    enum Outcome {
        /// The message has further frames, or there is nothing to do.
        case incomplete
        case message(isText: Bool, ByteBuffer)
        case ping(ByteBuffer)
        /// With the client's code; nil if it has none.
        case close(UInt16?)
        /// The client has broken the protocol: the code to close with.
        case broken(UInt16)
    }

    /// The payload of a control frame (RFC 6455, section 5.5).
    static let controlBytesMax = 125

    private let bytesMax: Int
    /// The frames of an unfinished message; nil between two messages.
    private var joined: (isText: Bool, bytes: ByteBuffer)?

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    mutating func add(_ frame: WebSocketFrame) -> Outcome {
        guard frame.maskKey != nil, !frame.rsv1, !frame.rsv2, !frame.rsv3 else {
            return .broken(1_002)
        }
        let bytes = frame.unmaskedData
        switch frame.opcode {
        case .text, .binary:
            guard joined == nil else { return .broken(1_002) }
            return join(frame.opcode == .text, bytes, isLast: frame.fin)
        case .continuation:
            guard let first = joined else { return .broken(1_002) }
            // Without a second reference, so that appending copies nothing.
            joined = nil
            guard first.bytes.readableBytes + bytes.readableBytes <= bytesMax else {
                return .broken(1_009)
            }
            var all = first.bytes
            all.writeImmutableBuffer(bytes)
            return join(first.isText, all, isLast: frame.fin)
        case .ping: return .ping(bytes)
        case .pong: return .incomplete
        case .connectionClose:
            guard bytes.readableBytes != 1 else { return .broken(1_002) }
            return .close(bytes.getInteger(at: bytes.readerIndex))
        default: return .broken(1_002)
        }
    }

    private mutating func join(_ isText: Bool, _ bytes: ByteBuffer, isLast: Bool) -> Outcome {
        guard isLast else {
            joined = (isText, bytes)
            return .incomplete
        }
        if isText {
            let isValid = bytes.withUnsafeReadableBytes {
                String(validating: $0, as: UTF8.self) != nil
            }
            guard isValid else { return .broken(1_007) }
        }
        return .message(isText: isText, bytes)
    }

    /// Writes a whole frame of a server, which is not masked.
    static func write(_ opcode: WebSocketOpcode, _ payload: ByteView, to buffer: inout ByteBuffer) {
        buffer.writeInteger(0x80 | UInt8(webSocketOpcode: opcode))
        switch payload.count {
        case ...125: buffer.writeInteger(UInt8(payload.count))
        case ...0xffff:
            buffer.writeInteger(UInt8(126))
            buffer.writeInteger(UInt16(payload.count))
        default:
            buffer.writeInteger(UInt8(127))
            buffer.writeInteger(UInt64(payload.count))
        }
        buffer.writeBytes(payload.buffer)
    }
}
