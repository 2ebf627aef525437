package import Bytes
internal import Vocabulary

/// One frame of a connection on which a node, the collector, reads the changes of another node's active
/// copies for one HTTP feed.
///
/// As bytes: the payload's length (UInt32), the number of a stream (UInt32), the kind (UInt8), the
/// payload; integers are big-endian. The collector numbers its streams from 1, and never uses a number
/// again. Frames that concern the connection have number 0.
package struct ChangesFrame {
    package enum Kind: UInt8, Sendable, CaseIterable {
        // From the collector.
        /// The first frame: what the connection is for.
        case begin = 1
        /// Opens a stream of a vBucket.
        case open = 2
        case close = 3
        /// So many more bytes (UInt32) may be sent.
        case credit = 4
        case ping = 5
        // From the node that has the copies.
        /// The stream begins at this position.
        case opened = 16
        /// The position is not in the copy's history; the stream is over.
        case rolledBack = 17
        /// Deletions after the position were purged; the stream is over.
        case purged = 18
        /// This node does not serve the vBucket now; the stream is over.
        case unavailable = 19
        case snapshot = 20
        case change = 21
        /// The consumer has everything through this seqno.
        case advanced = 22
        /// The stream is over; its consumer opens another one.
        case ended = 23
        case pong = 24

        package var isOfCollector: Bool { rawValue < Kind.opened.rawValue }

        var concernsStream: Bool {
            switch self {
            case .begin, .credit, .ping, .pong: false
            case .open, .close, .opened, .rolledBack, .purged, .unavailable, .snapshot, .change,
                .advanced, .ended:
                true
            }
        }

        /// The lengths that the payload may have.
        var payloadBytes: ClosedRange<Int> {
            switch self {
            case .begin: 5...80
            case .open: 27...40
            case .close, .ping, .pong, .purged, .unavailable, .ended: 0...0
            case .credit: 4...4
            case .opened: 24...24
            case .rolledBack, .snapshot: 16...16
            case .advanced: 8...8
            case .change: 19...Limits.frameBytesMax
            }
        }
    }

    package static let headerBytes = 9

    package let number: UInt32
    package let kind: Kind
    package let payload: ByteView

    package var byteCount: Int { ChangesFrame.headerBytes + payload.count }

    /// Appends a frame whose payload `body` appends.
    package static func append(
        _ kind: Kind,
        _ number: UInt32 = 0,
        to output: ByteWriter,
        _ body: (ByteWriter) -> Void = { _ in }
    ) {
        let start = output.count
        output.append(bigEndian: UInt32(0))
        output.append(bigEndian: number)
        output.append(kind.rawValue)
        body(output)
        let length = output.count - start - headerBytes
        output.replace(at: start, bigEndian: UInt32(length))
    }
}

/// Finds the frames in received bytes; any bytes give an outcome.
package struct ChangesFrameDecoder: Sendable {
    package enum Outcome {
        case frame(ChangesFrame)
        /// The frame's length; 0 if its header is not complete.
        case incomplete(needed: Int)
        /// The text completes "it sent ...".
        case invalid(String)
    }

    private let isFromCollector: Bool

    package init(isFromCollector: Bool) {
        self.isFromCollector = isFromCollector
    }

    /// The frame at the front of `view`.
    package func next(in view: ByteView) -> Outcome {
        guard view.count >= ChangesFrame.headerBytes else { return .incomplete(needed: 0) }
        let length = Int(view.bigEndian(at: 0, as: UInt32.self))
        let number = view.bigEndian(at: 4, as: UInt32.self)
        guard let kind = ChangesFrame.Kind(rawValue: view[8]), kind.isOfCollector == isFromCollector
        else { return .invalid("a frame of the unknown kind \(view[8])") }
        guard kind.payloadBytes.contains(length) else {
            return .invalid("a frame of kind \(kind.rawValue) with \(length) bytes")
        }
        guard kind.concernsStream == (number > 0) else {
            return .invalid("a frame of kind \(kind.rawValue) with the number \(number)")
        }
        guard view.count - ChangesFrame.headerBytes >= length else {
            return .incomplete(needed: ChangesFrame.headerBytes + length)
        }
        let payload = view.slice(ChangesFrame.headerBytes, length)
        return .frame(ChangesFrame(number: number, kind: kind, payload: payload))
    }
}
