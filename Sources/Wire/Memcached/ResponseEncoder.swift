package import Bytes
package import Vocabulary

/// Encodes responses, each in one pass into memory that was claimed once.
///
/// Three forms make up almost all traffic and have their own functions: a bare header, flags and
/// value, and a mutation token. The general `append` encodes all others.
///
/// - Pass a `duration` only if the connection agreed to tracing; it makes the frame a flexible one,
///   whose key must be shorter than 256 bytes.
/// - An error response has no extras and no key; its value may be a JSON `error` object.
package enum ResponseEncoder {
    /// Appends a bare header: success without a value, or an error without a text.
    package static func append(
        _ status: Status,
        to writer: ByteWriter,
        replyTo: ReplyTo,
        cas: CAS = .none,
        duration: ServerDuration? = nil
    ) {
        _ = open(writer, replyTo, status: status, body: Body(), cas: cas, duration: duration)
    }

    /// Appends a success with the document's flags and value.
    package static func appendDocument(
        to writer: ByteWriter,
        replyTo: ReplyTo,
        datatype: Datatype,
        cas: CAS,
        flags: UInt32,
        value: ByteView,
        duration: ServerDuration? = nil
    ) {
        let address = claimDocument(
            to: writer,
            replyTo: replyTo,
            datatype: datatype,
            cas: cas,
            flags: flags,
            valueCount: value.count,
            duration: duration
        )
        Memory.copy(to: address, from: value.start, count: value.count)
    }

    /// Appends a success with the document's flags and room for the value.
    ///
    /// Returns where the caller must write `valueCount` bytes before it uses `writer` again.
    package static func claimDocument(
        to writer: ByteWriter,
        replyTo: ReplyTo,
        datatype: Datatype,
        cas: CAS,
        flags: UInt32,
        valueCount: Int,
        duration: ServerDuration? = nil
    ) -> UnsafeMutableRawPointer {
        let body = Body(datatype: datatype, extras: 4, value: valueCount)
        let address = open(
            writer,
            replyTo,
            status: .success,
            body: body,
            cas: cas,
            duration: duration
        )
        address.storeBytes(of: flags.bigEndian, as: UInt32.self)
        return address + 4
    }

    /// Appends the success of a mutation, with the mutation token (vBucket UUID and seqno).
    package static func appendMutation(
        to writer: ByteWriter,
        replyTo: ReplyTo,
        cas: CAS,
        uuid: VBucketUUID,
        seqno: Seqno,
        duration: ServerDuration? = nil
    ) {
        let address = open(
            writer,
            replyTo,
            status: .success,
            body: Body(extras: 16),
            cas: cas,
            duration: duration
        )
        address.storeBytes(of: uuid.value.bigEndian, as: UInt64.self)
        address.storeBytes(of: seqno.value.bigEndian, toByteOffset: 8, as: UInt64.self)
    }

    /// Appends a response with any parts.
    package static func append(
        _ status: Status,
        to writer: ByteWriter,
        replyTo: ReplyTo,
        datatype: Datatype = [],
        cas: CAS = .none,
        extras: ByteView = .empty,
        key: ByteView = .empty,
        value: ByteView,
        duration: ServerDuration? = nil
    ) {
        let body = Body(
            datatype: datatype,
            extras: extras.count,
            key: key.count,
            value: value.count
        )
        let address = open(
            writer,
            replyTo,
            status: status,
            body: body,
            cas: cas,
            duration: duration
        )
        Memory.copy(to: address, from: extras.start, count: extras.count)
        Memory.copy(to: address + extras.count, from: key.start, count: key.count)
        Memory.copy(
            to: address + extras.count + key.count,
            from: value.start,
            count: value.count
        )
    }

    /// Appends the notification of a newer cluster map.
    ///
    /// - Parameters:
    ///   - writer: Gets the notification.
    ///   - version: Epoch and revision of the map.
    ///   - bucket: The bucket's name; empty for the map without a bucket.
    ///   - config: The map; empty if the connection agreed to revisions only.
    ///   - datatype: That of `config`: `json` only if the connection agreed to it.
    package static func appendClusterMapChange(
        to writer: ByteWriter,
        version: (epoch: Int64, revision: Int64),
        bucket: ByteView,
        config: ByteView,
        datatype: Datatype
    ) {
        let address = writer.claim(FrameHeader.byteCount + 16 + bucket.count + config.count)
        let shape =
            UInt64(Magic.serverRequest.rawValue) << 56 | UInt64(clusterMapChange) << 48
            | UInt64(bucket.count) << 32 | 16 << 24 | UInt64(datatype.rawValue) << 16
        let bodyCount = UInt64(16 + bucket.count + config.count)
        storeHeader(address, shape, bodyAndOpaque: bodyCount << 32, cas: 0)
        address.storeBytes(of: version.epoch.bigEndian, toByteOffset: 24, as: Int64.self)
        address.storeBytes(of: version.revision.bigEndian, toByteOffset: 32, as: Int64.self)
        Memory.copy(to: address + 40, from: bucket.start, count: bucket.count)
        Memory.copy(to: address + 40 + bucket.count, from: config.start, count: config.count)
    }

    /// The only request a server may send: the Python client aborts on any other.
    private static let clusterMapChange: UInt8 = 0x01

    private struct Body {
        var datatype: Datatype = []
        var extras = 0
        var key = 0
        var value = 0
    }

    /// Claims the whole frame, writes its header and framing, returns where the extras begin.
    @inline(__always)
    private static func open(
        _ writer: ByteWriter,
        _ replyTo: ReplyTo,
        status: Status,
        body: Body,
        cas: CAS,
        duration: ServerDuration?
    ) -> UnsafeMutableRawPointer {
        let plainCount = body.extras + body.key + body.value
        precondition(
            body.extras < 256 && body.key < 65_536 && plainCount < 1 << 32 - 16,
            "a response must fit its header"
        )
        var shape =
            UInt64(replyTo.opcodeByte) << 48 | UInt64(body.key) << 32 | UInt64(body.extras) << 24
            | UInt64(body.datatype.rawValue) << 16 | UInt64(status.rawValue)
        guard let duration else {
            shape |= UInt64(Magic.response.rawValue) << 56
            let address = writer.claim(FrameHeader.byteCount + plainCount)
            storeHeader(
                address,
                shape,
                bodyAndOpaque: UInt64(plainCount) << 32 | UInt64(replyTo.opaque),
                cas: cas.value
            )
            return address + FrameHeader.byteCount
        }
        precondition(body.key < 256, "a flexible frame's key must be shorter than 256 bytes")
        shape |= UInt64(Magic.flexResponse.rawValue) << 56 | 3 << 40
        let address = writer.claim(FrameHeader.byteCount + 3 + plainCount)
        let bodyAndOpaque = UInt64(plainCount + 3) << 32 | UInt64(replyTo.opaque)
        storeHeader(address, shape, bodyAndOpaque: bodyAndOpaque, cas: cas.value)
        address.storeBytes(of: 0x02, toByteOffset: 24, as: UInt8.self)  // Id 0, two bytes.
        address.storeBytes(of: duration.encoded.bigEndian, toByteOffset: 25, as: UInt16.self)
        return address + FrameHeader.byteCount + 3
    }

    @inline(__always)
    static func storeHeader(
        _ address: UnsafeMutableRawPointer,
        _ shape: UInt64,
        bodyAndOpaque: UInt64,
        cas: UInt64
    ) {
        address.storeBytes(of: shape.bigEndian, as: UInt64.self)
        address.storeBytes(of: bodyAndOpaque.bigEndian, toByteOffset: 8, as: UInt64.self)
        address.storeBytes(of: cas.bigEndian, toByteOffset: 16, as: UInt64.self)
    }
}
