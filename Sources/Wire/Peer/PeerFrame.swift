package import Bytes

/// One frame of the service `control`: length, kind, call, payload.
///
/// The length (UInt32) counts the bytes after it. A call of 0 is one-way; an answer repeats the
/// call's number, and its kind with the highest bit set. The cluster service defines the payloads.
///
/// - Created by `PeerFrameDecoder`; borrows the decoded bytes.
package struct PeerFrame {
    package static let headerCount = 14
    /// Bytes of a payload: the largest document (20 MiB) with its system attributes (1 MiB) and
    /// its metadata.
    package static let payloadBytesMax = 24 << 20
    /// Marks an answer.
    package static let answerBit: UInt16 = 0x8000

    package let kind: UInt16
    package let call: UInt64
    package let payload: ByteView

    /// Where the next frame begins.
    package var byteCount: Int { PeerFrame.headerCount + payload.count }

    package var isAnswer: Bool { kind & PeerFrame.answerBit != 0 }

    /// Appends a frame; `payload` has at most `payloadBytesMax` bytes.
    package static func append(
        kind: UInt16,
        call: UInt64,
        payload: ByteView,
        to output: ByteWriter
    ) {
        precondition(payload.count <= payloadBytesMax, "a frame's payload is bounded")
        output.reserve(headerCount + payload.count)
        output.append(bigEndian: UInt32(headerCount - 4 + payload.count))
        output.append(bigEndian: kind)
        output.append(bigEndian: call)
        output.append(payload)
    }
}

/// Finds whole frames in a stream and rejects invalid ones; copies nothing.
///
/// - Total: any bytes give an outcome, none crash.
package struct PeerFrameDecoder: Sendable {
    package enum Outcome {
        /// The next step needs `needed` bytes in the buffer.
        case incomplete(needed: Int)
        case frame(PeerFrame)
        /// An invalid length: close the connection.
        case invalid
    }

    private let payloadBytesMax: Int

    package init(payloadBytesMax: Int = PeerFrame.payloadBytesMax) {
        self.payloadBytesMax = payloadBytesMax
    }

    /// Decodes the frame at the start of `view`.
    package func next(in view: ByteView) -> Outcome {
        guard view.count >= 4 else { return .incomplete(needed: PeerFrame.headerCount) }
        let length = Int(view.bigEndian(at: 0, as: UInt32.self))
        let payloadCount = length - (PeerFrame.headerCount - 4)
        guard payloadCount >= 0, payloadCount <= payloadBytesMax else { return .invalid }
        guard view.count >= 4 + length else { return .incomplete(needed: 4 + length) }
        return .frame(
            PeerFrame(
                kind: view.bigEndian(at: 4, as: UInt16.self),
                call: view.bigEndian(at: 6, as: UInt64.self),
                payload: view.slice(PeerFrame.headerCount, payloadCount)
            )
        )
    }
}
