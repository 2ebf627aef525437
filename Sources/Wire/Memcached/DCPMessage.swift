package import Bytes
package import Vocabulary

/// A request for a vBucket's changes.
package struct DCPStreamRequest: Hashable, Sendable {
    package struct Flags: OptionSet, Hashable, Sendable {
        package let rawValue: UInt32

        package init(rawValue: UInt32) { self.rawValue = rawValue }

        package static let diskOnly = Flags(rawValue: 0x02)
        package static let toLatest = Flags(rawValue: 0x04)
        package static let activeOnly = Flags(rawValue: 0x10)
        package static let strictUUID = Flags(rawValue: 0x20)
        package static let fromLatest = Flags(rawValue: 0x40)
        package static let ignorePurged = Flags(rawValue: 0x80)
    }

    package var flags: Flags = []
    package var start: Seqno
    package var end: Seqno
    package var uuid: VBucketUUID
    package var snapshotStart: Seqno
    package var snapshotEnd: Seqno

    package init(
        flags: Flags = [],
        start: Seqno,
        end: Seqno,
        uuid: VBucketUUID,
        snapshotStart: Seqno,
        snapshotEnd: Seqno
    ) {
        self.flags = flags
        self.start = start
        self.end = end
        self.uuid = uuid
        self.snapshotStart = snapshotStart
        self.snapshotEnd = snapshotEnd
    }
}

/// The kind of snapshot that a marker announces.
package struct DCPSnapshotFlags: OptionSet, Hashable, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let memory = DCPSnapshotFlags(rawValue: 1)
    package static let disk = DCPSnapshotFlags(rawValue: 2)
    package static let checkpoint = DCPSnapshotFlags(rawValue: 4)
    package static let acknowledge = DCPSnapshotFlags(rawValue: 8)
}

/// Announces a snapshot: the changes from `start` to `end`.
package struct DCPSnapshotMarker: Hashable, Sendable {
    package var start: Seqno
    package var end: Seqno
    package var flags: DCPSnapshotFlags
    /// The last seqno visible to readers (prepares are not); nil in a version 1 marker.
    package var maxVisible: Seqno?
    /// Prepares up to this seqno are completed; nil in a version 1 marker.
    package var highCompleted: Seqno?

    package init(
        start: Seqno,
        end: Seqno,
        flags: DCPSnapshotFlags,
        maxVisible: Seqno? = nil,
        highCompleted: Seqno? = nil
    ) {
        self.start = start
        self.end = end
        self.flags = flags
        self.maxVisible = maxVisible
        self.highCompleted = highCompleted
    }
}

/// Why a producer ends a stream.
package enum DCPStreamEnd: UInt32, Hashable, Sendable, CaseIterable {
    /// Every requested change was sent.
    case finished = 0
    /// The consumer closed the stream.
    case closed = 1
    /// The vBucket's state on the producer's node changed.
    case stateChanged = 2
    case disconnected = 3
    /// The consumer is too slow.
    case slow = 4
    /// The disk cannot be read.
    case backfillFailed = 5
    /// The consumer must roll back and request a new stream.
    case rollback = 6
    case filterEmpty = 7
    case privilegesLost = 8
}

/// A mutation, a deletion or an expiration; key and value are borrowed.
package struct DCPChange {
    package let meta: DocumentMeta
    package let key: ByteView
    package let value: ByteView

    package init(meta: DocumentMeta, key: ByteView, value: ByteView) {
        self.meta = meta
        self.key = key
        self.value = value
    }
}

/// The abort of a prepare; the key is borrowed.
package struct DCPAbort {
    package let seqno: Seqno
    /// The seqno of the aborted prepare.
    package let prepare: Seqno
    package let key: ByteView

    package init(seqno: Seqno, prepare: Seqno, key: ByteView) {
        self.seqno = seqno
        self.prepare = prepare
        self.key = key
    }
}

/// A decoded message of the change protocol (DCP).
///
/// - Borrows the frame's bytes.
/// - Lengths are valid; the receiver validates the numbers.
package enum DCPMessage {
    case open(flags: UInt32, name: ByteView)
    case addStream(flags: UInt32)
    case closeStream
    /// The filter is JSON that selects a part of the changes, or empty.
    case streamRequest(DCPStreamRequest, filter: ByteView)
    case getFailoverLog
    case streamEnd(reason: UInt32)
    case snapshotMarker(DCPSnapshotMarker)
    /// A mutation, a deletion or an expiration, according to `meta`.
    case change(DCPChange)
    /// A durable write (possibly a deletion) that is not visible to readers yet.
    case prepare(DCPChange, DurabilityLevel)
    /// A durable write that failed and never becomes visible.
    case abort(DCPAbort)
    case noop
    case bufferAcknowledgement(bytes: UInt32)
    case control(key: ByteView, value: ByteView)
    case seqnoAdvanced(Seqno)
}
