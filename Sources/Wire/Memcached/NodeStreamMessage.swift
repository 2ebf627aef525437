package import Bytes
package import Vocabulary

/// Identifies a vBucket's stream from another node; sent as the opaque of every frame.
///
/// One stream of the nodes carries the vBuckets of all buckets: the consumer numbers the buckets that it
/// requests, and each number is a channel.
package struct NodeStreamAddress: Hashable, Sendable {
    package let channel: UInt16
    package let vBucket: VBucketID

    package init(channel: UInt16, vBucket: VBucketID) {
        self.channel = channel
        self.vBucket = vBucket
    }

    package init(opaque: UInt32) {
        channel = UInt16(opaque >> 16)
        vBucket = VBucketID(UInt16(truncatingIfNeeded: opaque))
    }

    package var opaque: UInt32 { UInt32(channel) << 16 | UInt32(vBucket.number) }
}

/// The messages between nodes in addition to DCP's own, with the same 24-byte header.
///
/// | opcode | extras | value | answer |
/// | --- | --- | --- | --- |
/// | 0xf0 open channel | | the bucket's UUID | status |
/// | 0xf1 stream request | fence (8), then as DCP's (48) | | status; high or rollback seqno (8),
/// log |
/// | 0xf2 close stream | | | none |
/// | 0xf3 acknowledgement | fence, covered in memory, covered on disk (8 each) | | none |
/// | 0xf4 outstanding prepares | | seqnos (8 each), ascending | none |
/// | 0xf5 purge | purge seqno, highest revision (8 each) | | none |
///
/// The list of outstanding prepares follows a snapshot marker and has all prepares that are
/// outstanding at the snapshot's end: aborts leave no record in the hash table or on disk. A purge
/// follows the marker of a snapshot that begins at seqno 0: purged tombstones leave none either.
///
/// A log here includes the fences: UUID, seqno, fence, 8 bytes each.
///
/// A later release adds fields at the end of the extras, whose length is in the header; readers skip
/// what follows the extras that they know. DCP's own messages have DCP's lengths.
///
/// The consumer numbers its stream requests in the header's CAS, and responses repeat the number,
/// so that a response to an earlier request is recognized.
package enum NodeStreamMessage {
    case openChannel(bucket: ByteView)
    case streamRequest(DCPStreamRequest, fence: UInt64)
    case closeStream
    case acknowledgement(NodeAcknowledgement)
    case outstanding([Seqno])
    case purge(NodePurge)
    /// A DCP message, unchanged.
    case changes(DCPMessage)

    /// The message in a frame; nil if it is none, or malformed.
    package init?(_ frame: Frame) {
        guard frame.header.magic == .request else { return nil }
        let extras = frame.extras
        switch frame.opcode {
        case .nodeOpenChannel:
            guard !frame.value.isEmpty, frame.value.count <= 64 else { return nil }
            self = .openChannel(bucket: frame.value)
        case .nodeStreamRequest:
            guard extras.count >= 56, frame.key.isEmpty, frame.value.isEmpty else { return nil }
            let request = DCPDecoder.streamRequest(extras.slice(8, 48))
            self = .streamRequest(request, fence: extras.bigEndian(at: 0, as: UInt64.self))
        case .nodeCloseStream:
            guard frame.key.isEmpty, frame.value.isEmpty else { return nil }
            self = .closeStream
        case .nodeAcknowledgement:
            guard extras.count >= 24, frame.key.isEmpty, frame.value.isEmpty else { return nil }
            self = .acknowledgement(
                NodeAcknowledgement(
                    fence: extras.bigEndian(at: 0, as: UInt64.self),
                    covered: Seqno(extras.bigEndian(at: 8, as: UInt64.self)),
                    onDisk: Seqno(extras.bigEndian(at: 16, as: UInt64.self))
                )
            )
        case .nodeOutstanding:
            guard frame.key.isEmpty,
                let seqnos = NodeStreamMessage.seqnos(frame.value)
            else { return nil }
            self = .outstanding(seqnos)
        case .nodePurge:
            guard extras.count >= 16, frame.key.isEmpty, frame.value.isEmpty else { return nil }
            let seqno = Seqno(extras.bigEndian(at: 0, as: UInt64.self))
            let revision = extras.bigEndian(at: 8, as: UInt64.self)
            guard seqno.value < 1 << 48, revision < DCPDecoder.revisionLimit else { return nil }
            self = .purge(NodePurge(seqno: seqno, maxRevision: revision))
        default:
            guard let message = DCPDecoder.message(in: frame), message.hasValidAttributes else {
                return nil
            }
            self = .changes(message)
        }
    }

    /// A decoder of the frames between nodes, whose values have system attributes beside the rest.
    package static let decoder = FrameDecoder(valueBytesMax: Limits.storedValueBytesMax)

    private static func seqnos(_ value: ByteView) -> [Seqno]? {
        guard value.count.isMultiple(of: 8) else { return nil }
        var seqnos: [Seqno] = []
        seqnos.reserveCapacity(value.count / 8)
        for offset in stride(from: 0, to: value.count, by: 8) {
            let seqno = Seqno(value.bigEndian(at: offset, as: UInt64.self))
            guard seqno > seqnos.last ?? .zero, seqno.value < 1 << 48 else { return nil }
            seqnos.append(seqno)
        }
        return seqnos
    }
}

extension DCPMessage {
    /// Whether a value with extended attributes has their form: the store does not check it again.
    fileprivate var hasValidAttributes: Bool {
        switch self {
        case .change(let change), .prepare(let change, _):
            !change.meta.datatype.contains(.xattr) || XattrBlob(change.value) != nil
        default: true
        }
    }
}

/// A copy's progress, reported to its active copy.
package struct NodeAcknowledgement: Hashable, Sendable {
    package var fence: UInt64
    /// The covered seqno in memory.
    package var covered: Seqno
    /// The covered seqno on disk.
    package var onDisk: Seqno

    package init(fence: UInt64, covered: Seqno, onDisk: Seqno) {
        self.fence = fence
        self.covered = covered
        self.onDisk = onDisk
    }
}

/// Which tombstones a copy has purged, reported to a copy that is built from it.
package struct NodePurge: Hashable, Sendable {
    /// Tombstones up to this seqno may be purged.
    package var seqno: Seqno
    /// The highest revision of a purged tombstone.
    package var maxRevision: UInt64

    package init(seqno: Seqno, maxRevision: UInt64) {
        self.seqno = seqno
        self.maxRevision = maxRevision
    }
}

/// The producer's response to a stream request.
package enum NodeStreamAnswer: Hashable, Sendable {
    /// The stream is open; `high` is the active copy's newest seqno now.
    case accepted(high: Seqno, FailoverLog)
    case rollback(Seqno, FailoverLog)
    case refused(Status)

    /// The answer in a response; nil if it is malformed.
    package init?(_ frame: Frame) {
        guard let status = frame.header.status else { return nil }
        guard status == .success || status == .rollback else {
            self = .refused(status)
            return
        }
        guard frame.extras.count >= 8, let log = FailoverLog(fenced: frame.value) else {
            return nil
        }
        let seqno = Seqno(frame.extras.bigEndian(at: 0, as: UInt64.self))
        self = status == .success ? .accepted(high: seqno, log) : .rollback(seqno, log)
    }
}

extension FailoverLog {
    fileprivate init?(fenced value: ByteView) {
        guard !value.isEmpty, value.count % 24 == 0,
            value.count <= 24 * Limits.failoverEntriesMax
        else { return nil }
        let entries = stride(from: 0, to: value.count, by: 24).map { offset in
            Entry(
                uuid: VBucketUUID(value.bigEndian(at: offset, as: UInt64.self)),
                seqno: Seqno(value.bigEndian(at: offset + 8, as: UInt64.self)),
                fence: value.bigEndian(at: offset + 16, as: UInt64.self)
            )
        }
        self.init(entries: entries)
    }
}

/// Encodes node stream messages and answers.
package enum NodeStreamEncoder {
    package static func openChannel(_ channel: UInt16, bucket: String, to writer: ByteWriter) {
        bucket.withView { name in
            RequestEncoder.append(
                .nodeOpenChannel,
                to: writer,
                opaque: UInt32(channel) << 16,
                value: name
            )
        }
    }

    package static func append(
        _ request: DCPStreamRequest,
        fence: UInt64,
        number: UInt64,
        at address: NodeStreamAddress,
        to writer: ByteWriter
    ) {
        append(
            .nodeStreamRequest,
            at: address,
            [
                fence, UInt64(request.flags.rawValue) << 32, request.start.value,
                request.end.value, request.uuid.value, request.snapshotStart.value,
                request.snapshotEnd.value,
            ],
            number: number,
            to: writer
        )
    }

    package static func closeStream(at address: NodeStreamAddress, to writer: ByteWriter) {
        append(.nodeCloseStream, at: address, [], to: writer)
    }

    package static func append(
        _ acknowledgement: NodeAcknowledgement,
        at address: NodeStreamAddress,
        to writer: ByteWriter
    ) {
        append(
            .nodeAcknowledgement,
            at: address,
            [
                acknowledgement.fence, acknowledgement.covered.value,
                acknowledgement.onDisk.value,
            ],
            to: writer
        )
    }

    package static func append(
        outstanding seqnos: [Seqno],
        at address: NodeStreamAddress,
        to writer: ByteWriter
    ) {
        seqnos.map(\.value.bigEndian).withUnsafeBytes { value in
            RequestEncoder.append(
                .nodeOutstanding,
                to: writer,
                vBucket: address.vBucket,
                opaque: address.opaque,
                value: ByteView(value)
            )
        }
    }

    package static func append(
        _ purge: NodePurge,
        at address: NodeStreamAddress,
        to writer: ByteWriter
    ) {
        append(.nodePurge, at: address, [purge.seqno.value, purge.maxRevision], to: writer)
    }

    package static func append(
        _ answer: NodeStreamAnswer,
        to number: UInt64,
        at address: NodeStreamAddress,
        to writer: ByteWriter
    ) {
        let replyTo = ReplyTo(.nodeStreamRequest, opaque: address.opaque)
        switch answer {
        case .refused(let status):
            ResponseEncoder.append(status, to: writer, replyTo: replyTo, cas: CAS(number))
        case .accepted(let seqno, let log):
            append(.success, seqno, log: log, replyTo: replyTo, number: number, to: writer)
        case .rollback(let seqno, let log):
            append(.rollback, seqno, log: log, replyTo: replyTo, number: number, to: writer)
        }
    }

    private static func append(
        _ status: Status,
        _ seqno: Seqno,
        log: FailoverLog,
        replyTo: ReplyTo,
        number: UInt64,
        to writer: ByteWriter
    ) {
        let value = ByteWriter(capacity: 24 * Limits.failoverEntriesMax)
        for entry in log.entries {
            value.append(bigEndian: entry.uuid.value)
            value.append(bigEndian: entry.seqno.value)
            value.append(bigEndian: entry.fence)
        }
        withUnsafeBytes(of: seqno.value.bigEndian) { extras in
            ResponseEncoder.append(
                status,
                to: writer,
                replyTo: replyTo,
                cas: CAS(number),
                extras: ByteView(extras),
                value: value.view
            )
        }
    }

    private static func append(
        _ opcode: Opcode,
        at address: NodeStreamAddress,
        _ words: [UInt64],
        number: UInt64 = 0,
        to writer: ByteWriter
    ) {
        words.map(\.bigEndian).withUnsafeBytes { extras in
            RequestEncoder.append(
                opcode,
                to: writer,
                vBucket: address.vBucket,
                opaque: address.opaque,
                cas: CAS(number),
                extras: ByteView(extras)
            )
        }
    }
}
