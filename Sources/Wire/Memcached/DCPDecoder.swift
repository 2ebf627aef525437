package import Bytes
package import Vocabulary

/// Decodes messages of the change protocol (DCP).
///
/// Total: any frame gives a message or nil; nil is answered with "invalid" (0x04).
package enum DCPDecoder {
    /// The message in a frame; nil if the opcode is not DCP's or the message is malformed.
    package static func message(in frame: Frame) -> DCPMessage? {
        guard frame.header.magic == .request, let opcode = frame.opcode else { return nil }
        switch opcode {
        case .dcpOpen: return open(frame)
        case .dcpAddStream: return number(frame).map { .addStream(flags: $0) }
        case .dcpCloseStream: return isBare(frame) ? .closeStream : nil
        case .dcpStreamRequest: return streamRequest(frame)
        case .dcpGetFailoverLog: return isBare(frame) ? .getFailoverLog : nil
        case .dcpStreamEnd:
            return number(frame).map { .streamEnd(reason: $0) }
        case .dcpSnapshotMarker: return marker(frame).map { .snapshotMarker($0) }
        case .dcpMutation: return mutation(frame).map { .change($0) }
        case .dcpDeletion: return deletion(frame).map { .change($0) }
        case .dcpExpiration: return expiration(frame).map { .change($0) }
        case .dcpPrepare: return prepare(frame)
        case .dcpAbort: return abort(frame).map { .abort($0) }
        case .dcpNoop: return isBare(frame) ? .noop : nil
        case .dcpBufferAcknowledgement:
            return number(frame).map { .bufferAcknowledgement(bytes: $0) }
        case .dcpControl:
            guard frame.extras.isEmpty, !frame.key.isEmpty else { return nil }
            return .control(key: frame.key, value: frame.value)
        case .dcpSeqnoAdvanced:
            guard frame.extras.count == 8, frame.key.isEmpty, frame.value.isEmpty else {
                return nil
            }
            return seqno(frame.extras, 0).map { .seqnoAdvanced($0) }
        default: return nil
        }
    }

    /// The failover log in the response to a stream request or GET_FAILOVER_LOG; nil if malformed.
    package static func failoverLog(_ value: ByteView) -> FailoverLog? {
        guard !value.isEmpty, value.count % 16 == 0,
            value.count <= 16 * Limits.failoverEntriesMax
        else { return nil }
        var entries: [FailoverLog.Entry] = []
        for offset in stride(from: 0, to: value.count, by: 16) {
            guard let seqno = seqno(value, offset + 8) else { return nil }
            let uuid = VBucketUUID(value.bigEndian(at: offset, as: UInt64.self))
            entries.append(FailoverLog.Entry(uuid: uuid, seqno: seqno))
        }
        return FailoverLog(entries: entries)
    }

    /// The seqno in a response that requires a rollback; nil if malformed.
    package static func rollback(_ value: ByteView) -> Seqno? {
        value.count == 8 ? seqno(value, 0) : nil
    }

    // MARK: Parts

    private static func isBare(_ frame: Frame) -> Bool {
        frame.extras.isEmpty && frame.key.isEmpty && frame.value.isEmpty
    }

    private static func number(_ frame: Frame) -> UInt32? {
        guard frame.extras.count == 4, frame.key.isEmpty, frame.value.isEmpty else { return nil }
        return frame.extras.bigEndian(at: 0, as: UInt32.self)
    }

    /// The seqno at `offset`; nil if it has more than 48 bits.
    private static func seqno(_ view: ByteView, _ offset: Int) -> Seqno? {
        let value = view.bigEndian(at: offset, as: UInt64.self)
        return value < 1 << 48 ? Seqno(value) : nil
    }

    private static func open(_ frame: Frame) -> DCPMessage? {
        guard frame.extras.count == 8, !frame.key.isEmpty, frame.key.count <= 200 else {
            return nil
        }
        return .open(flags: frame.extras.bigEndian(at: 4, as: UInt32.self), name: frame.key)
    }

    private static func streamRequest(_ frame: Frame) -> DCPMessage? {
        guard frame.extras.count == 48, frame.key.isEmpty else { return nil }
        return .streamRequest(streamRequest(frame.extras), filter: frame.value)
    }

    /// The stream request in 48 bytes; its seqnos are any 64 bits.
    static func streamRequest(_ extras: ByteView) -> DCPStreamRequest {
        func seqno(_ offset: Int) -> Seqno {
            Seqno(extras.bigEndian(at: offset, as: UInt64.self))
        }
        return DCPStreamRequest(
            flags: .init(rawValue: extras.bigEndian(at: 0, as: UInt32.self)),
            start: seqno(8),
            end: seqno(16),
            uuid: VBucketUUID(extras.bigEndian(at: 24, as: UInt64.self)),
            snapshotStart: seqno(32),
            snapshotEnd: seqno(40)
        )
    }

    private static func marker(_ frame: Frame) -> DCPSnapshotMarker? {
        guard frame.key.isEmpty else { return nil }
        let isSecond = frame.extras.count == 1
        guard isSecond ? frame.extras[0] == 0 : frame.extras.count == 20 && frame.value.isEmpty
        else { return nil }
        let view = isSecond ? frame.value : frame.extras
        guard view.count == (isSecond ? 36 : 20), let start = seqno(view, 0),
            let end = seqno(view, 8), start <= end
        else { return nil }
        let flags = DCPSnapshotFlags(rawValue: view.bigEndian(at: 16, as: UInt32.self))
        var marker = DCPSnapshotMarker(start: start, end: end, flags: flags)
        guard isSecond else { return marker }
        guard let maxVisible = seqno(view, 20), let highCompleted = seqno(view, 28) else {
            return nil
        }
        marker.maxVisible = maxVisible
        marker.highCompleted = highCompleted
        return marker
    }

    /// Larger revisions are rejected: counting from 1 never reaches them, and revision + 1 must
    /// fit.
    static let revisionLimit: UInt64 = 1 << 63

    /// The metadata common to all changes; nil without a key, or with seqno 0.
    private static func meta(_ frame: Frame) -> DocumentMeta? {
        guard let seqno = seqno(frame.extras, 0), seqno > .zero, !frame.key.isEmpty,
            frame.key.count <= 255, frame.datatype.rawValue < 8
        else { return nil }
        let revision = frame.extras.bigEndian(at: 8, as: UInt64.self)
        guard revision < revisionLimit else { return nil }
        return DocumentMeta(
            seqno: seqno,
            cas: frame.cas,
            revision: revision,
            datatype: frame.datatype
        )
    }

    private static func mutation(_ frame: Frame) -> DCPChange? {
        let extras = frame.extras
        // Extended metadata after the value is not supported.
        guard extras.count == 31, extras.bigEndian(at: 28, as: UInt16.self) == 0,
            var meta = meta(frame)
        else { return nil }
        meta.flags = extras.bigEndian(at: 16, as: UInt32.self)
        meta.expiry = extras.bigEndian(at: 20, as: UInt32.self)
        return DCPChange(meta: meta, key: frame.key, value: frame.value)
    }

    private static func deletion(_ frame: Frame) -> DCPChange? {
        let extras = frame.extras
        guard extras.count == 18 || extras.count == 21, var meta = meta(frame) else { return nil }
        meta.isDeleted = true
        if extras.count == 18 {
            guard extras.bigEndian(at: 16, as: UInt16.self) == 0 else { return nil }
        } else {
            meta.expiry = extras.bigEndian(at: 16, as: UInt32.self)
        }
        return DCPChange(meta: meta, key: frame.key, value: frame.value)
    }

    private static func expiration(_ frame: Frame) -> DCPChange? {
        guard frame.extras.count == 20, var meta = meta(frame) else { return nil }
        meta.isDeleted = true
        meta.isExpired = true
        meta.expiry = frame.extras.bigEndian(at: 16, as: UInt32.self)
        return DCPChange(meta: meta, key: frame.key, value: frame.value)
    }

    /// seqno 8, revision 8, flags 4, expiry 4, lock time 4, use 1, deleted 1, level 1.
    private static func prepare(_ frame: Frame) -> DCPMessage? {
        let extras = frame.extras
        guard extras.count == 31, extras[29] < 2, var meta = meta(frame),
            let level = DurabilityLevel(rawValue: extras[30])
        else { return nil }
        meta.flags = extras.bigEndian(at: 16, as: UInt32.self)
        meta.expiry = extras.bigEndian(at: 20, as: UInt32.self)
        meta.isDeleted = extras[29] == 1
        return .prepare(DCPChange(meta: meta, key: frame.key, value: frame.value), level)
    }

    /// The prepare's seqno, then the abort's.
    private static func abort(_ frame: Frame) -> DCPAbort? {
        guard frame.extras.count == 16, frame.value.isEmpty, 1...255 ~= frame.key.count,
            let prepare = seqno(frame.extras, 0), let seqno = seqno(frame.extras, 8),
            prepare > .zero, seqno > prepare
        else { return nil }
        return DCPAbort(seqno: seqno, prepare: prepare, key: frame.key)
    }
}
