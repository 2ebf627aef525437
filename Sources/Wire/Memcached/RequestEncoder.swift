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
        var place = open(
            opcode,
            writer,
            vBucket: vBucket,
            opaque: opaque,
            cas: cas,
            datatype: datatype,
            framing: framing.count,
            extras: extras.count,
            key: key.count,
            value: value.count
        )
        for part in [framing, extras, key, value] {
            Memory.copy(to: place, from: part.start, count: part.count)
            place += part.count
        }
    }

    /// Appends the header of a request, and claims its body.
    ///
    /// - Returns: Where the body begins.
    static func open(
        _ opcode: Opcode,
        _ writer: ByteWriter,
        vBucket: VBucketID,
        opaque: UInt32,
        cas: CAS,
        datatype: Datatype,
        framing: Int = 0,
        extras: Int,
        key: Int,
        value: Int
    ) -> UnsafeMutableRawPointer {
        let bodyCount = framing + extras + key + value
        precondition(
            extras < 256 && key < (framing == 0 ? 65_536 : 256)
                && framing < 256 && bodyCount < 1 << 32,
            "a request must fit its header"
        )
        let magic: Magic = framing == 0 ? .request : .flexRequest
        let shape =
            UInt64(magic.rawValue) << 56 | UInt64(opcode.rawValue) << 48
            | UInt64(framing) << 40 | UInt64(key) << 32 | UInt64(extras) << 24
            | UInt64(datatype.rawValue) << 16 | UInt64(vBucket.number)
        let place = writer.claim(FrameHeader.byteCount + bodyCount)
        ResponseEncoder.storeHeader(
            place,
            shape,
            bodyAndOpaque: UInt64(bodyCount) << 32 | UInt64(opaque),
            cas: cas.value
        )
        return place + FrameHeader.byteCount
    }
}
