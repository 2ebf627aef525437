internal import Bytes
package import Vocabulary
package import Wire

/// The data of one vBucket at an outside consumer: applies the messages of its stream, and keeps older
/// versions for rollbacks.
///
/// `flaw` names the first message that violates the order: a change outside its snapshot, a seqno
/// that does not rise, or a message that a client without synchronous replication must not receive.
package struct ConsumerView {
    /// The numbers of received changes, over all streams.
    package struct Counts: Hashable, Sendable {
        package var changes = 0
        package var deletions = 0
        package var expirations = 0
    }

    /// The seqno of the last change.
    package private(set) var position = Seqno.zero
    /// The history that the position belongs to.
    package private(set) var uuid = VBucketUUID(0)
    /// The open snapshot; empty at `position` if none is open.
    package private(set) var snapshot = SnapshotRange(start: .zero, end: .zero)
    package private(set) var flaw: String?
    package private(set) var counts = Counts()
    /// Every value that the consumer received, by key, also of changes that it discarded later.
    package private(set) var received: [[UInt8]: Set<[UInt8]>] = [:]
    /// The failover log of the last accepted request.
    private(set) var log: FailoverLog?
    /// The versions of each key, the newest last.
    private var versions: [[UInt8]: [CopyContent.Version]] = [:]
    /// The positions at which the consumer had a consistent state.
    private var wholes: [Seqno] = [.zero]
    private let hasValues: Bool

    package init(hasValues: Bool = true) {
        self.hasValues = hasValues
    }

    package var isInSnapshot: Bool { position < snapshot.end }

    /// The newest version of each key.
    package var documents: [[UInt8]: CopyContent.Version] { versions.compactMapValues(\.last) }

    package func version(of key: [UInt8]) -> CopyContent.Version? { versions[key]?.last }

    /// The request that continues behind the position.
    package func request(_ flags: DCPStreamRequest.Flags = []) -> DCPStreamRequest {
        DCPStreamRequest(
            flags: flags,
            start: position,
            end: Seqno((1 << 48) - 1),
            uuid: uuid,
            snapshotStart: isInSnapshot ? snapshot.start : position,
            snapshotEnd: isInSnapshot ? snapshot.end : position
        )
    }

    /// Takes over the history of a producer that accepted `request`.
    package mutating func accept(_ log: FailoverLog) {
        self.log = log
        uuid = log.current.uuid
    }

    /// Returns to the last consistent state at or before `seqno`.
    ///
    /// A snapshot has only the newest version of each key, so its inner states cannot be restored.
    package mutating func rollBack(to seqno: Seqno) {
        wholes.removeAll { $0 > seqno }
        position = wholes.last ?? .zero
        snapshot = SnapshotRange(start: position, end: position)
        for key in Array(versions.keys) {
            versions[key]?.removeAll { $0.seqno > position }
            if versions[key]?.isEmpty == true { versions[key] = nil }
        }
        let entry = log?.entries.first { $0.seqno <= position }
        uuid = position == .zero ? VBucketUUID(0) : entry?.uuid ?? VBucketUUID(0)
    }

    // MARK: Messages

    /// Applies a message of a stream that shows attributes in a form.
    package mutating func receive(_ message: DCPMessage, _ form: AttributeForm = .whole) {
        switch message {
        case .snapshotMarker(let marker): receive(marker)
        case .change(let change): receive(change, form)
        case .prepare(let change, _): fail("a prepare at \(change.meta.seqno.value)")
        case .abort(let abort): fail("an abort at \(abort.seqno.value)")
        case .seqnoAdvanced(let seqno): fail("an advance to \(seqno.value) without an agreement")
        default: fail("\(message)")
        }
    }

    private mutating func receive(_ marker: DCPSnapshotMarker) {
        // A stream may begin a snapshot behind changes that the client does not see.
        let isBehind = marker.start < position || marker.end <= position
        if isBehind || (isInSnapshot && marker.end < snapshot.end) {
            fail("a snapshot of \(marker.start.value) to \(marker.end.value)")
        }
        // An interrupted snapshot is complete at the end of the next one.
        let start = isInSnapshot ? snapshot.start : position
        snapshot = SnapshotRange(start: start, end: max(marker.end, start))
    }

    private mutating func receive(_ change: DCPChange, _ form: AttributeForm) {
        let meta = change.meta
        guard meta.seqno > position, meta.seqno <= snapshot.end else {
            return fail("a change at \(meta.seqno.value)")
        }
        let key = change.key.bytes
        let version = CopyContent.Version(meta, hasValues ? change.value : nil, form: form)
        counts.changes += 1
        if meta.isDeleted { counts.deletions += 1 }
        if meta.isDeleted, meta.isExpired { counts.expirations += 1 }
        if !meta.isDeleted, let value = version.body { received[key, default: []].insert(value) }
        position = meta.seqno
        versions[key, default: []].append(version)
        if !isInSnapshot { wholes.append(position) }
    }

    private mutating func fail(_ what: String) {
        guard flaw == nil else { return }
        flaw =
            "\(what), at \(position.value) in a snapshot from \(snapshot.start.value) to "
            + "\(snapshot.end.value)"
    }
}
