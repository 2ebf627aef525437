package import Bytes

/// One frame of a connection on which a node, the coordinator, queries the indexes of another one, the
/// responder.
///
/// As bytes: the payload's length (UInt32), the query's number (UInt32), the kind (UInt8), the payload.
/// The coordinator numbers its queries from 1, in ascending order. Frames that concern the connection
/// have number 0.
package struct QueryFrame {
    package enum Kind: UInt8, Sendable, CaseIterable {
        // From the coordinator.
        /// Bytes of a request, of which more follow.
        case part = 1
        /// The last bytes of a request.
        case request = 2
        /// The responder may send one more batch.
        case credit = 3
        /// The query is over; its replies are ignored from now on.
        case cancel = 4
        /// Of number 0; the responder answers with `pong`.
        case ping = 5
        // From the responder.
        case reply = 16
        /// Of number 0: so many bytes (UInt32) of `part` and `request` have arrived.
        case received = 17
        /// Of number 0.
        case pong = 18

        package var isOfCoordinator: Bool { rawValue < Kind.reply.rawValue }

        /// The lengths that the payload may have.
        var payloadBytes: ClosedRange<Int> {
            switch self {
            // An empty part would be no progress.
            case .part, .request: 1...QueryLimits.partBytesMax
            case .credit, .cancel, .ping, .pong: 0...0
            case .reply: 1...QueryLimits.replyBytesMax
            case .received: 4...4
            }
        }

        var concernsQuery: Bool {
            switch self {
            case .part, .request, .credit, .cancel, .reply: true
            case .ping, .received, .pong: false
            }
        }
    }

    package static let headerBytes = 9

    package let number: UInt32
    package let kind: Kind
    package let payload: ByteView

    package var byteCount: Int { QueryFrame.headerBytes + payload.count }

    /// Appends a frame.
    package static func append(
        _ kind: Kind,
        _ number: UInt32 = 0,
        payload: ByteView = .empty,
        to output: ByteWriter
    ) {
        output.append(bigEndian: UInt32(payload.count))
        output.append(bigEndian: number)
        output.append(kind.rawValue)
        output.append(payload)
    }
}

/// Finds the frames in received bytes; any bytes give an outcome.
package struct QueryFrameDecoder: Sendable {
    package enum Outcome {
        case frame(QueryFrame)
        /// The frame's length; 0 if its header is not complete.
        case incomplete(needed: Int)
        /// The text completes "it sent ...".
        case invalid(String)
    }

    private let isFromCoordinator: Bool

    package init(isFromCoordinator: Bool) {
        self.isFromCoordinator = isFromCoordinator
    }

    /// The frame at the front of `view`.
    package func next(in view: ByteView) -> Outcome {
        guard view.count >= QueryFrame.headerBytes else { return .incomplete(needed: 0) }
        let length = Int(view.bigEndian(at: 0, as: UInt32.self))
        let number = view.bigEndian(at: 4, as: UInt32.self)
        guard let kind = QueryFrame.Kind(rawValue: view[8]),
            kind.isOfCoordinator == isFromCoordinator
        else { return .invalid("a frame of the unknown kind \(view[8])") }
        guard kind.payloadBytes.contains(length) else {
            return .invalid("a frame of kind \(kind.rawValue) with \(length) bytes")
        }
        guard kind.concernsQuery == (number > 0) else {
            return .invalid("a frame of kind \(kind.rawValue) with the number \(number)")
        }
        guard view.count - QueryFrame.headerBytes >= length else {
            return .incomplete(needed: QueryFrame.headerBytes + length)
        }
        let payload = view.slice(QueryFrame.headerBytes, length)
        return .frame(QueryFrame(number: number, kind: kind, payload: payload))
    }
}
