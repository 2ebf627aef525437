internal import Bytes
package import Vocabulary
package import Wire

/// A consumer of a visible-only feed: applies its messages and checks their order.
///
/// `flaw` names the first message that violates the order: a prepare or an abort, a change out of
/// order or outside its snapshot, or one behind an `advanced`.
package struct FeedChecker {
    /// The last complete state, which a rollback can return to.
    private struct Whole {
        var position = Seqno.zero
        var documents: [[UInt8]: CopyContent.Version] = [:]
    }

    /// Everything up to this seqno was received, of the history `uuid`.
    package private(set) var position = Seqno.zero
    package var uuid = VBucketUUID(0)
    /// The open snapshot; empty at `position` if none is open.
    package private(set) var snapshot = SnapshotRange(start: .zero, end: .zero)
    package private(set) var documents: [[UInt8]: CopyContent.Version] = [:]
    package private(set) var flaw: String?
    package private(set) var changes = 0
    package private(set) var advances = 0
    package private(set) var restarts = 0
    private var whole = Whole()

    package init() {}

    package var isInSnapshot: Bool { position < snapshot.end }

    package var request: DCPStreamRequest {
        DCPStreamRequest(
            start: position,
            end: Seqno((1 << 48) - 1),
            uuid: position == .zero ? VBucketUUID(0) : uuid,
            snapshotStart: isInSnapshot ? snapshot.start : position,
            snapshotEnd: isInSnapshot ? snapshot.end : position
        )
    }

    /// Discards the changes behind `seqno`.
    ///
    /// Discards everything if the state at `seqno` is not known: a snapshot has only the newest
    /// version of each key, so its inner states cannot be restored.
    package mutating func rollBack(to seqno: Seqno) {
        let kept = whole.position <= seqno ? whole : Whole()
        if kept.position == .zero { restarts += 1 }
        (whole, documents, position) = (kept, kept.documents, kept.position)
        snapshot = SnapshotRange(start: position, end: position)
    }

    package mutating func receive(_ message: DCPMessage) {
        switch message {
        case .snapshotMarker(let marker):
            if marker.start != position || marker.end <= position
                || (isInSnapshot && marker.end < snapshot.end)
            {
                fail("a snapshot of \(marker.start.value) to \(marker.end.value)")
            }
            // An interrupted snapshot is complete at the end of the next one.
            let start = isInSnapshot ? snapshot.start : position
            snapshot = SnapshotRange(start: start, end: marker.end)
        case .change(let change): receive(change)
        case .seqnoAdvanced(let seqno):
            if seqno <= position { fail("advanced to \(seqno.value)") }
            advances += 1
            position = max(position, seqno)
            recordWhole()
        case .prepare(let change, _): fail("a prepare at \(change.meta.seqno.value)")
        case .abort(let abort): fail("an abort at \(abort.seqno.value)")
        case .streamEnd(let reason):
            if reason == DCPStreamEnd.rollback.rawValue { rollBack(to: .zero) }
        default: fail("\(message)")
        }
    }

    private mutating func receive(_ change: DCPChange) {
        let meta = change.meta
        if meta.seqno <= position || meta.seqno > snapshot.end {
            fail("a change at \(meta.seqno.value)")
        }
        changes += 1
        position = max(position, meta.seqno)
        documents[change.key.bytes] = CopyContent.Version(meta, change.value)
        recordWhole()
    }

    private mutating func recordWhole() {
        guard !isInSnapshot else { return }
        whole = Whole(position: position, documents: documents)
    }

    private mutating func fail(_ what: String) {
        guard flaw == nil else { return }
        flaw =
            "\(what), at \(position.value) in a snapshot from \(snapshot.start.value) to "
            + "\(snapshot.end.value)"
    }

    /// Compares the content with a copy whose high seqno is the follower's position.
    ///
    /// - Parameters:
    ///   - versions: The copy's documents and tombstones.
    ///   - isComplete: `versions` are all that the copy has.
    /// - Returns: The first difference; nil if there is none.
    package func difference(
        from versions: [[UInt8]: CopyContent.Version],
        isComplete: Bool
    ) -> String? {
        for (key, version) in versions {
            let found = documents[key]
            // A feed that begins at zero does not send purged tombstones.
            if version.isDeleted, found == nil { continue }
            if let found, found.agrees(with: version) { continue }
            let text = found.map { "\($0)" } ?? "nothing"
            let name = String(decoding: key, as: UTF8.self)
            return "\(name) is \(version), and the feed sent \(text)"
        }
        guard isComplete else { return nil }
        for (key, version) in documents where !version.isDeleted && versions[key] == nil {
            let name = String(decoding: key, as: UTF8.self)
            return "\(name) is not there, and the feed sent \(version)"
        }
        return nil
    }
}
