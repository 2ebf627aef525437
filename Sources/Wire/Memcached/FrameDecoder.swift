public import Bytes
internal import Vocabulary

/// Finds whole frames in a stream, refuses nonsense; copies nothing and allocates nothing.
///
/// A connection asks again and again, each time behind the last frame, until the answer is
/// `incomplete`. One decoder serves both directions: which magics make sense is the connection's
/// business, that a magic is one at all is decided here.
///
/// - Total: any bytes give an outcome, none crash.
/// - A frame that is returned lies within the view, and so do its four parts.
@usableFromInline
package struct FrameDecoder: Sendable {
    @usableFromInline
    package enum Outcome {
        /// Fewer than `needed` bytes are here; 24 until the header is complete.
        case incomplete(needed: Int)
        case frame(Frame)
        /// The value is over the limit, the frame is not: skip `header.frameCount` bytes without
        /// keeping them, and answer "too big" (0x03). The body need not be here yet.
        case valueTooBig(FrameHeader)
        /// The stream cannot be understood from here on.
        case nonsense(Nonsense)
    }

    @usableFromInline
    package enum Nonsense: Equatable, Sendable {
        /// No frame begins with this byte: close without an answer.
        case magic(UInt8)
        /// Framing extras, extras and key are longer than the body they are parts of.
        case lengths(FrameHeader)
        /// The frame is over the limit: answer "invalid" (0x04) and close.
        case tooLong(FrameHeader)
    }

    @usableFromInline let frameBytesMax: Int
    @usableFromInline let valueBytesMax: Int

    /// A decoder with these limits; before login, `Limits.frameBytesMaxBeforeLogin` is for frames.
    package init(
        frameBytesMax: Int = Limits.frameBytesMax,
        valueBytesMax: Int = Limits.valueBytesMax
    ) {
        self.frameBytesMax = frameBytesMax
        self.valueBytesMax = valueBytesMax
    }

    /// What the bytes at the front of `view` are.
    @inlinable
    package func next(in view: ByteView) -> Outcome {
        guard view.count >= FrameHeader.headerCount else {
            if view.count > 0, !FrameDecoder.opensFrame(view[0]) {
                return .nonsense(.magic(view[0]))
            }
            return .incomplete(needed: FrameHeader.headerCount)
        }
        let header = FrameHeader(view)
        guard FrameDecoder.opensFrame(header.magicByte) else {
            return .nonsense(.magic(header.magicByte))
        }
        let valueCount = header.valueCount
        guard valueCount >= 0 else { return .nonsense(.lengths(header)) }
        guard header.frameCount <= frameBytesMax else { return .nonsense(.tooLong(header)) }
        guard valueCount <= valueBytesMax else { return .valueTooBig(header) }
        guard view.count >= header.frameCount else {
            return .incomplete(needed: header.frameCount)
        }
        return .frame(Frame(header: header, start: view.start))
    }

    /// 0x80 to 0x83, 0x08, 0x18.
    @inlinable @inline(__always)
    static func opensFrame(_ byte: UInt8) -> Bool { byte & 0xfc == 0x80 || byte & 0xef == 0x08 }
}
