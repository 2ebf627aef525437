public import Bytes
internal import Vocabulary

/// Finds whole frames in a stream and rejects invalid ones; copies and allocates nothing.
///
/// A connection calls `next` after each frame until the outcome is `incomplete`. One decoder serves
/// both directions: it accepts every known magic, and the connection checks which ones it expects.
///
/// - Total: any bytes give an outcome, none crash.
/// - A returned frame lies within the view, and so do its four parts.
@usableFromInline
package struct FrameDecoder: Sendable {
    @usableFromInline
    package enum Outcome {
        /// The next step needs `needed` bytes in the buffer; 24 until the header is complete.
        case incomplete(needed: Int)
        case frame(Frame)
        /// The value is over the limit, the frame is not: skip `header.frameCount` bytes without
        /// buffering them, and answer "too big" (0x03). The body may not have arrived yet.
        case valueTooBig(FrameHeader)
        /// The frame is invalid, and the position of the next frame is unknown.
        case invalid(FrameError)
    }

    @usableFromInline
    package enum FrameError: Equatable, Sendable {
        /// The first byte is no magic: close without a response.
        case magic(UInt8)
        /// Framing extras, extras and key are longer than the body.
        case lengths(FrameHeader)
        /// The frame is over the limit: answer "invalid" (0x04) and close.
        case tooLong(FrameHeader)
    }

    @usableFromInline let frameBytesMax: Int
    @usableFromInline let valueBytesMax: Int

    /// A decoder with these limits; before authentication, pass `Limits.frameBytesMaxBeforeLogin`.
    package init(
        frameBytesMax: Int = Limits.frameBytesMax,
        valueBytesMax: Int = Limits.valueBytesMax
    ) {
        self.frameBytesMax = frameBytesMax
        self.valueBytesMax = valueBytesMax
    }

    /// Decodes the frame at the start of `view`.
    @inlinable
    package func next(in view: ByteView) -> Outcome {
        guard view.count >= FrameHeader.headerCount else {
            if view.count > 0, !FrameDecoder.opensFrame(view[0]) {
                return .invalid(.magic(view[0]))
            }
            return .incomplete(needed: FrameHeader.headerCount)
        }
        let header = FrameHeader(view)
        guard FrameDecoder.opensFrame(header.magicByte) else {
            return .invalid(.magic(header.magicByte))
        }
        let valueCount = header.valueCount
        guard valueCount >= 0 else { return .invalid(.lengths(header)) }
        guard header.frameCount <= frameBytesMax else { return .invalid(.tooLong(header)) }
        guard valueCount <= valueBytesMax || isAllowedWithAttributes(header) else {
            return .valueTooBig(header)
        }
        guard view.count >= header.frameCount else {
            return .incomplete(needed: header.frameCount)
        }
        return .frame(Frame(header: header, start: view.start))
    }

    /// Whether a longer value is within the bound of requests that may have system attributes
    /// beside a body: a value of the datatype xattr, and the paths of a multi mutation.
    ///
    /// The command checks the exact bounds of body and attributes.
    @usableFromInline @inline(never)
    func isAllowedWithAttributes(_ header: FrameHeader) -> Bool {
        let isMultiMutation = header.opcodeByte == Opcode.subdocMultiMutation.rawValue
        // The bound of streams between nodes has room for them already.
        guard valueBytesMax == Limits.valueBytesMax, header.isRequest,
            isMultiMutation || header.datatype.contains(.xattr)
        else { return false }
        let attributes = Limits.storedValueBytesMax - Limits.valueBytesMax
        return header.valueCount <= valueBytesMax + attributes + FrameDecoder.besideBytesMax
    }

    /// Bytes of a value beside body and attributes: extended metadata with a length of 16 bits, or
    /// the headers and texts of 16 paths.
    static let besideBytesMax = 1 << 16

    /// 0x80 to 0x83, 0x08, 0x18.
    @inlinable @inline(__always)
    static func opensFrame(_ byte: UInt8) -> Bool { byte & 0xfc == 0x80 || byte & 0xef == 0x08 }
}
