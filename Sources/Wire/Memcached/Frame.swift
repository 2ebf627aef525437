public import Bytes
public import Vocabulary

/// The 24 bytes that open every frame, as three words.
///
/// Three loads read the header from the receive buffer; the fields are shifts of the words. The
/// header is readable before the body has arrived, so that an oversized body is rejected without
/// being received.
///
/// Lengths have at most 32 bits, so no sum of them overflows: sums are unchecked, and inlined because
/// every request computes several.
@usableFromInline
package struct FrameHeader: Equatable, Sendable {
    package static let byteCount = 24
    static let datatypeOffset = 5
    static let bodyCountOffset = 8

    /// Magic, opcode, key length, extras length, datatype, vBucket or status.
    @usableFromInline let shape: UInt64
    /// Body length and opaque.
    @usableFromInline let bodyAndOpaque: UInt64
    @usableFromInline package let casBits: UInt64

    /// Reads the first 24 bytes of `view`, which must have as many.
    @inlinable
    package init(_ view: ByteView) {
        shape = view.bigEndian(at: 0, as: UInt64.self)
        bodyAndOpaque = view.bigEndian(at: 8, as: UInt64.self)
        casBits = view.bigEndian(at: 16, as: UInt64.self)
    }

    @inlinable package var magicByte: UInt8 { UInt8(truncatingIfNeeded: shape >> 56) }

    /// Nil if the first byte is no magic.
    package var magic: Magic? { Magic(rawValue: magicByte) }

    @inlinable package var opcodeByte: UInt8 { UInt8(truncatingIfNeeded: shape >> 48) }

    /// Nil for a number that is no command.
    @usableFromInline package var opcode: Opcode? { Opcode(rawValue: opcodeByte) }

    /// Flexible framing: the key length's two bytes are the lengths of framing extras and key.
    @inlinable package var isFlex: Bool { magicByte & 0xef == 0x08 }

    /// A request of a client, in either layout.
    @inlinable package var isRequest: Bool { magicByte == 0x80 || magicByte == 0x08 }

    @inlinable package var framingCount: Int { isFlex ? Int(shape >> 40 & 0xff) : 0 }

    @inlinable package var keyCount: Int { Int(shape >> 32 & (isFlex ? 0xff : 0xffff)) }

    @inlinable package var extrasCount: Int { Int(shape >> 24 & 0xff) }

    @inlinable
    package var datatype: Datatype { Datatype(rawValue: UInt8(truncatingIfNeeded: shape >> 16)) }

    /// Valid in a request.
    @inlinable
    package var vBucket: VBucketID { VBucketID(UInt16(truncatingIfNeeded: shape)) }

    /// Valid in a response.
    @inlinable package var statusNumber: UInt16 { UInt16(truncatingIfNeeded: shape) }

    /// Valid in a response; nil for an unknown status.
    package var status: Status? { Status(rawValue: statusNumber) }

    @inlinable package var bodyCount: Int { Int(bodyAndOpaque >> 32) }

    /// Echoed in the response, never interpreted.
    @inlinable package var opaque: UInt32 { UInt32(truncatingIfNeeded: bodyAndOpaque) }

    @inlinable package var cas: CAS { CAS(casBits) }

    /// Header and body.
    @inlinable package var frameCount: Int { FrameHeader.headerCount &+ bodyCount }

    /// Negative if framing extras, extras and key are longer than the body.
    @inlinable @inline(__always)
    package var valueCount: Int { bodyCount &- framingCount &- extrasCount &- keyCount }

    @inlinable package var replyTo: ReplyTo { ReplyTo(opcodeByte: opcodeByte, opaque: opaque) }

    @usableFromInline @inline(__always) static var headerCount: Int { 24 }
}

/// The fields of a request that its response repeats; a parked request keeps only these.
@usableFromInline
package struct ReplyTo: Equatable, Sendable {
    @usableFromInline package let opcodeByte: UInt8
    @usableFromInline package let opaque: UInt32

    @inlinable
    package init(opcodeByte: UInt8, opaque: UInt32) {
        self.opcodeByte = opcodeByte
        self.opaque = opaque
    }

    package init(_ opcode: Opcode, opaque: UInt32) {
        self.init(opcodeByte: opcode.rawValue, opaque: opaque)
    }
}

/// A whole frame in the receive buffer: its header, and views of the four parts of its body.
///
/// Requests and responses have the same layout and share this type; see `header.isRequest`.
///
/// - Created by `FrameDecoder` only, which checked that all parts lie within the received bytes.
/// - Borrows the receive buffer: invalid once the buffer is reused.
@usableFromInline
package struct Frame {
    @usableFromInline package let header: FrameHeader
    @usableFromInline let start: UnsafeRawPointer

    @inlinable
    init(header: FrameHeader, start: UnsafeRawPointer) {
        self.header = header
        self.start = start
    }

    /// Header and body: where the next frame begins.
    @inlinable package var byteCount: Int { header.frameCount }

    @inlinable
    package var framing: ByteView { part(FrameHeader.headerCount, header.framingCount) }

    @inlinable @inline(__always)
    package var extras: ByteView {
        part(FrameHeader.headerCount &+ header.framingCount, header.extrasCount)
    }

    @inlinable @inline(__always)
    package var key: ByteView {
        let offset = FrameHeader.headerCount &+ header.framingCount &+ header.extrasCount
        return part(offset, header.keyCount)
    }

    @inlinable @inline(__always)
    package var value: ByteView {
        let count = header.valueCount
        return part(header.frameCount &- count, count)
    }

    /// The frame's bytes, header included.
    @inlinable package var whole: ByteView { part(0, header.frameCount) }

    @inlinable package var opcode: Opcode? { header.opcode }
    @inlinable package var opaque: UInt32 { header.opaque }
    @inlinable package var cas: CAS { header.cas }
    @inlinable package var datatype: Datatype { header.datatype }
    @inlinable package var vBucket: VBucketID { header.vBucket }
    @inlinable package var replyTo: ReplyTo { header.replyTo }

    @inlinable @inline(__always)
    func part(_ offset: Int, _ count: Int) -> ByteView {
        ByteView(start: start + offset, count: count)
    }
}
