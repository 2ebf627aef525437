package import Bytes
package import Vocabulary

/// Encodes requests, for Divan's client, the load driver and the DCP producer.
package enum RequestEncoder {
    /// Appends one request.
    ///
    /// `framing` (see `FramingExtras.append`) makes it a flexible frame, whose key must be shorter
    /// than 256 bytes.
    package static func append(
        _ opcode: Opcode,
        to writer: ByteWriter,
        vBucket: VBucketID = VBucketID(0),
        opaque: UInt32 = 0,
        cas: CAS = .none,
        datatype: Datatype = [],
        framing: ByteView = .empty,
        extras: ByteView = .empty,
        key: ByteView = .empty,
        value: ByteView = .empty
    ) {
        let bodyCount = framing.count + extras.count + key.count + value.count
        precondition(
            extras.count < 256 && key.count < (framing.isEmpty ? 65_536 : 256)
                && framing.count < 256 && bodyCount < 1 << 32,
            "a request must fit its header"
        )
        let magic: Magic = framing.isEmpty ? .request : .flexRequest
        let shape =
            UInt64(magic.rawValue) << 56 | UInt64(opcode.rawValue) << 48
            | UInt64(framing.count) << 40 | UInt64(key.count) << 32 | UInt64(extras.count) << 24
            | UInt64(datatype.rawValue) << 16 | UInt64(vBucket.number)
        var place = writer.claim(FrameHeader.byteCount + bodyCount)
        ResponseEncoder.storeHeader(
            place,
            shape,
            UInt64(bodyCount) << 32 | UInt64(opaque),
            cas.value
        )
        place += FrameHeader.byteCount
        for part in [framing, extras, key, value] {
            Memory.copy(to: place, from: part.start, count: part.count)
            place += part.count
        }
    }
}
