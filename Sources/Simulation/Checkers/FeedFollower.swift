internal import Bytes
package import Vocabulary
package import Wire

/// What a consumer of a visible-only feed has, by what it was handed.
///
/// `flaw` names the first item that no feed may hand over there: a prepare or an abort, a change out
/// of order or outside its snapshot, or one that `advanced` has passed.
package struct FeedFollower {
    /// A state without anything missing, to which a rollback may lead.
    private struct Whole {
        var position = Seqno.zero
        var documents: [[UInt8]: CopyContent.Version] = [:]
    }

    /// Where the follower stands, in the name of the history that it knows.
    package private(set) var position = Seqno.zero
    package var uuid = VBucketUUID(0)
    /// The snapshot that it is in; both ends are the position where it is in none.
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

    /// Discards what a feed does not vouch for: changes behind `seqno`, or everything where the state
    /// there is not known, since a snapshot has the newest version of each key only.
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
            // One that was broken off is whole at the end of the one that follows.
            let start = isInSnapshot ? snapshot.start : position
            snapshot = SnapshotRange(start: start, end: marker.end)
        case .change(let change): receive(change)
        case .seqnoAdvanced(let seqno):
            if seqno <= position { fail("advanced to \(seqno.value)") }
            advances += 1
            position = max(position, seqno)
            noteWhole()
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
        documents[change.key.bytes] = CopyContent.Version(
            seqno: meta.seqno,
            cas: meta.cas,
            value: meta.isDeleted ? nil : change.value.bytes,
            isDeleted: meta.isDeleted
        )
        noteWhole()
    }

    private mutating func noteWhole() {
        guard !isInSnapshot else { return }
        whole = Whole(position: position, documents: documents)
    }

    private mutating func fail(_ what: String) {
        guard flaw == nil else { return }
        flaw =
            "\(what), at \(position.value) in a snapshot from \(snapshot.start.value) to "
            + "\(snapshot.end.value)"
    }

    /// What is wrong where a copy has these versions at the follower's position, and nothing newer.
    ///
    /// - Parameters:
    ///   - versions: The copy's.
    ///   - isComplete: `versions` are all that the copy has.
    /// - Returns: A sentence; nil where nothing is wrong.
    package func difference(
        from versions: [[UInt8]: CopyContent.Version],
        isComplete: Bool
    ) -> String? {
        for (key, version) in versions {
            let found = documents[key]
            // A tombstone that was purged is told to no feed that begins at zero.
            if version.isDeleted, found == nil { continue }
            guard found?.seqno != version.seqno || found?.cas != version.cas else { continue }
            let text = found.map { "\($0)" } ?? "nothing"
            let name = String(decoding: key, as: UTF8.self)
            return "\(name) is \(version), and the feed gave \(text)"
        }
        guard isComplete else { return nil }
        for (key, version) in documents where !version.isDeleted && versions[key] == nil {
            let name = String(decoding: key, as: UTF8.self)
            return "\(name) is not there, and the feed gave \(version)"
        }
        return nil
    }
}
