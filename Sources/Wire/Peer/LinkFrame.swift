package import Bytes

/// One frame of the link of two nodes: length, stream, kind, payload.
///
/// The length (UInt32) is that of the payload. The node that opened the connection numbers its streams
/// (UInt64) with odd numbers, the other node with even ones, ascending. Frames of the link itself have
/// stream 0.
///
/// - Created by `LinkFrameDecoder`; borrows the decoded bytes.
package struct LinkFrame {
    package enum Kind: UInt8, Sendable, CaseIterable {
        /// Opens a stream: the service (UInt8), the request.
        case open = 1
        /// Bytes of a message, of which more follow.
        case part = 2
        /// The last bytes of a message.
        case message = 3
        /// The other side may send so many more bytes (UInt32).
        case credit = 4
        /// Ends a stream: the reason as text; empty if there is none.
        case end = 5
        /// The other side answers with `pong`.
        case ping = 6
        case pong = 7

        /// The lengths that the payload may have.
        var payloadBytes: ClosedRange<Int> {
            switch self {
            case .open: 1...LinkFrame.payloadBytesMax
            // One without bytes would be no progress, and no window would bound it.
            case .part, .message: 1...LinkFrame.payloadBytesMax
            case .credit: 4...4
            case .end: 0...LinkFrame.reasonBytesMax
            case .ping, .pong: 0...0
            }
        }

        var concernsStream: Bool { self != .ping && self != .pong }
    }

    package static let headerBytes = 13
    /// Larger messages are sent in parts: no frame waits for more than this of another stream.
    package static let payloadBytesMax = 128 << 10
    package static let reasonBytesMax = 256

    package let stream: UInt64
    package let kind: Kind
    package let payload: ByteView

    /// Where the next frame begins.
    package var byteCount: Int { LinkFrame.headerBytes + payload.count }

    /// Appends a frame; `payload` has a length that its kind permits.
    package static func append(
        _ kind: Kind,
        _ stream: UInt64 = 0,
        payload: ByteView = .empty,
        to output: ByteWriter
    ) {
        precondition(kind.payloadBytes.contains(payload.count), "a frame's payload is bounded")
        output.append(bigEndian: UInt32(payload.count))
        output.append(bigEndian: stream)
        output.append(kind.rawValue)
        output.append(payload)
    }

    /// Appends the header of a frame whose payload follows; `finish` sets its length.
    package static func begin(_ kind: Kind, _ stream: UInt64, to output: ByteWriter) -> Int {
        let start = output.count
        output.append(bigEndian: UInt32(0))
        output.append(bigEndian: stream)
        output.append(kind.rawValue)
        return start
    }

    /// Ends the frame that `begin` began at `start`.
    ///
    /// - Returns: The length of its payload.
    @discardableResult
    package static func finish(from start: Int, in output: ByteWriter) -> Int {
        let count = output.count - start - headerBytes
        output.replace(at: start, bigEndian: UInt32(count))
        return count
    }
}

/// Finds whole frames in received bytes; any bytes give an outcome.
package enum LinkFrameDecoder {
    package enum Outcome {
        case frame(LinkFrame)
        /// The frame's length; 0 if its header is not complete.
        case incomplete(needed: Int)
        /// The text completes "it sent ...".
        case invalid(String)
    }

    /// The frame at the front of `view`.
    package static func next(in view: ByteView) -> Outcome {
        guard view.count >= LinkFrame.headerBytes else { return .incomplete(needed: 0) }
        let length = Int(view.bigEndian(at: 0, as: UInt32.self))
        let stream = view.bigEndian(at: 4, as: UInt64.self)
        guard let kind = LinkFrame.Kind(rawValue: view[12]) else {
            return .invalid("a frame of the unknown kind \(view[12])")
        }
        guard kind.payloadBytes.contains(length) else {
            return .invalid("a frame of kind \(kind.rawValue) with \(length) bytes")
        }
        guard kind.concernsStream == (stream > 0) else {
            return .invalid("a frame of kind \(kind.rawValue) of stream \(stream)")
        }
        guard view.count - LinkFrame.headerBytes >= length else {
            return .incomplete(needed: LinkFrame.headerBytes + length)
        }
        let payload = view.slice(LinkFrame.headerBytes, length)
        return .frame(LinkFrame(stream: stream, kind: kind, payload: payload))
    }
}
