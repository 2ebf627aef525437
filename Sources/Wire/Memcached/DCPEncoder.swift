package import Bytes
package import Vocabulary

/// Encodes messages of the change protocol (DCP) directly into the send buffer.
///
/// A stream's messages carry the opaque of its stream request, by which the receiver identifies the
/// stream.
package struct DCPEncoder {
    package let vBucket: VBucketID
    package let opaque: UInt32
    /// Deletions are sent in the longer form, with their time.
    package var includesDeleteTimes = true
    /// Expirations are sent as such, not as deletions.
    package var distinguishesExpirations = true

    package init(vBucket: VBucketID, opaque: UInt32) {
        self.vBucket = vBucket
        self.opaque = opaque
    }

    // MARK: Producer

    package func append(_ marker: DCPSnapshotMarker, to writer: ByteWriter) {
        let isSecond = marker.maxVisible != nil
        let address = open(
            .dcpSnapshotMarker,
            writer,
            extras: isSecond ? 1 : 20,
            value: isSecond ? 36 : 0
        )
        let body = address + (isSecond ? 1 : 0)
        if isSecond { address.storeBytes(of: 0, as: UInt8.self) }
        store(marker.start.value, body, at: 0)
        store(marker.end.value, body, at: 8)
        store(marker.flags.rawValue, body, at: 16)
        guard let maxVisible = marker.maxVisible else { return }
        store(maxVisible.value, body, at: 20)
        store(marker.highCompleted?.value ?? 0, body, at: 28)
    }

    /// Appends a mutation, a deletion or an expiration.
    package func append(_ change: DCPChange, to writer: ByteWriter) {
        let meta = change.meta
        let isExpiration = meta.isDeleted && meta.isExpired && distinguishesExpirations
        let opcode: Opcode =
            isExpiration ? .dcpExpiration : meta.isDeleted ? .dcpDeletion : .dcpMutation
        let extras = isExpiration ? 20 : !meta.isDeleted ? 31 : includesDeleteTimes ? 21 : 18
        let address = open(opcode, change, extras: extras, in: writer)
        switch extras {
        case 31:
            store(meta.flags, address, at: 16)
            store(meta.expiry, address, at: 20)
            // Lock time, no extended metadata, and a byte of history.
            store(UInt32(0), address, at: 24)
            store(UInt16(0), address, at: 28)
            store(UInt8(0), address, at: 30)
        case 21:
            store(meta.expiry, address, at: 16)
            store(UInt8(0), address, at: 20)
        case 20:
            store(meta.expiry, address, at: 16)
        default:
            store(UInt16(0), address, at: 16)
        }
    }

    /// Appends the frame of a change but for the extras behind seqno and revision.
    ///
    /// - Returns: Where the extras begin.
    private func open(
        _ opcode: Opcode,
        _ change: DCPChange,
        extras: Int,
        in writer: ByteWriter
    ) -> UnsafeMutableRawPointer {
        let address = open(
            opcode,
            writer,
            extras: extras,
            key: change.key.count,
            value: change.value.count,
            datatype: change.meta.datatype,
            cas: change.meta.cas
        )
        store(change.meta.seqno.value, address, at: 0)
        store(change.meta.revision, address, at: 8)
        let key = address + extras
        Memory.copy(to: key, from: change.key.start, count: change.key.count)
        Memory.copy(
            to: key + change.key.count,
            from: change.value.start,
            count: change.value.count
        )
        return address
    }

    /// Appends a prepare; a deletion's time is sent in the field for the expiry.
    package func append(
        prepare change: DCPChange,
        _ level: DurabilityLevel,
        to writer: ByteWriter
    ) {
        let meta = change.meta
        let address = open(.dcpPrepare, change, extras: 31, in: writer)
        store(meta.flags, address, at: 16)
        store(meta.expiry, address, at: 20)
        // Lock time and use count.
        store(UInt32(0), address, at: 24)
        store(UInt8(0), address, at: 28)
        store(UInt8(meta.isDeleted ? 1 : 0), address, at: 29)
        store(level.rawValue, address, at: 30)
    }

    package func append(_ abort: DCPAbort, to writer: ByteWriter) {
        let address = open(.dcpAbort, writer, extras: 16, key: abort.key.count)
        store(abort.prepare.value, address, at: 0)
        store(abort.seqno.value, address, at: 8)
        Memory.copy(to: address + 16, from: abort.key.start, count: abort.key.count)
    }

    /// The most bytes that `append` of a change adds to key and value.
    package static let changeBytesMax = FrameHeader.byteCount + 31

    package func append(_ end: DCPStreamEnd, to writer: ByteWriter) {
        store(end.rawValue, open(.dcpStreamEnd, writer, extras: 4), at: 0)
    }

    package func append(advancedTo seqno: Seqno, to writer: ByteWriter) {
        store(seqno.value, open(.dcpSeqnoAdvanced, writer, extras: 8), at: 0)
    }

    package func appendNoop(to writer: ByteWriter) { _ = open(.dcpNoop, writer, extras: 0) }

    /// Appends the value of the response to a stream request or GET_FAILOVER_LOG.
    package static func append(_ log: FailoverLog, to writer: ByteWriter) {
        for entry in log.entries {
            writer.append(bigEndian: entry.uuid.value)
            writer.append(bigEndian: entry.seqno.value)
        }
    }

    // MARK: Consumer

    package func append(_ request: DCPStreamRequest, to writer: ByteWriter) {
        let address = open(.dcpStreamRequest, writer, extras: 48)
        store(request.flags.rawValue, address, at: 0)
        store(UInt32(0), address, at: 4)
        store(request.start.value, address, at: 8)
        store(request.end.value, address, at: 16)
        store(request.uuid.value, address, at: 24)
        store(request.snapshotStart.value, address, at: 32)
        store(request.snapshotEnd.value, address, at: 40)
    }

    package func appendOpen(flags: UInt32, name: ByteView, to writer: ByteWriter) {
        let address = open(.dcpOpen, writer, extras: 8, key: name.count)
        store(UInt32(0), address, at: 0)
        store(flags, address, at: 4)
        Memory.copy(to: address + 8, from: name.start, count: name.count)
    }

    package func appendControl(key: ByteView, value: ByteView, to writer: ByteWriter) {
        let address = open(.dcpControl, writer, extras: 0, key: key.count, value: value.count)
        Memory.copy(to: address, from: key.start, count: key.count)
        Memory.copy(to: address + key.count, from: value.start, count: value.count)
    }

    package func append(acknowledged bytes: UInt32, to writer: ByteWriter) {
        store(bytes, open(.dcpBufferAcknowledgement, writer, extras: 4), at: 0)
    }

    package func appendCloseStream(to writer: ByteWriter) {
        _ = open(.dcpCloseStream, writer, extras: 0)
    }

    package func appendGetFailoverLog(to writer: ByteWriter) {
        _ = open(.dcpGetFailoverLog, writer, extras: 0)
    }

    // MARK: Frames

    /// Claims a frame, writes its header and returns where its body begins.
    private func open(
        _ opcode: Opcode,
        _ writer: ByteWriter,
        extras: Int,
        key: Int = 0,
        value: Int = 0,
        datatype: Datatype = [],
        cas: CAS = .none
    ) -> UnsafeMutableRawPointer {
        RequestEncoder.open(
            opcode,
            writer,
            vBucket: vBucket,
            opaque: opaque,
            cas: cas,
            datatype: datatype,
            extras: extras,
            key: key,
            value: value
        )
    }

    @inline(__always)
    private func store<Integer: FixedWidthInteger>(
        _ value: Integer,
        _ address: UnsafeMutableRawPointer,
        at offset: Int
    ) {
        address.storeBytes(of: value.bigEndian, toByteOffset: offset, as: Integer.self)
    }
}
