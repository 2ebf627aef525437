package import Vocabulary
package import Wire

/// A copy's failover log and seqnos, from which its stream request is made.
package struct ResumePoint: Hashable, Sendable {
    package var log: FailoverLog
    package var high: Seqno
    /// The snapshot that the copy has only in part; nil if there is none.
    package var openSnapshot: SnapshotRange?

    package init(log: FailoverLog, high: Seqno, openSnapshot: SnapshotRange? = nil) {
        self.log = log
        self.high = high
        self.openSnapshot = openSnapshot
    }
}

/// The consumer's side of one vBucket's stream of changes: what to request, apply and adopt.
///
/// Exists as long as the copy is a replica, across connections. The caller sends the requests that
/// the machine returns, applies the accepted changes to the vBucket, and reports the result.
///
/// - Changes are applied inside an announced snapshot, in seqno order. Any other message violates
///   the protocol and ends the stream before it reaches the copy.
/// - The copy adopts the producer's failover log only up to its covered seqno, at the end of each
///   snapshot: the whole log would claim changes that the copy does not have.
package struct ReplicaStream: Hashable, Sendable {
    /// The next step after an answer, or after the end of a stream.
    package enum Step: Hashable, Sendable {
        case ask(DCPStreamRequest)
        /// The stream runs; adopt this log up to the covered seqno (`VBucketCore.adoptHistory`).
        case follow(FailoverLog)
        /// Request the producer's failover log.
        case askLog
        /// The copy has changes above `to` that the active copy never had, or lacks deletions:
        /// remove the changes above `to`, or all data, then call `restart`.
        case rewind(to: Seqno)
        /// This node cannot be the producer: wait for the next cluster map.
        case stop
    }

    /// How a message of the producer violated the protocol.
    package enum Violation: Hashable, Sendable {
        case notStreaming
        /// The snapshot does not continue the copy's changes.
        case snapshot(DCPSnapshotMarker)
        /// A list of prepares outside a snapshot.
        case outstanding
        /// A purge message outside a snapshot.
        case purge
        /// The change is outside the announced snapshot, or not above the previous change.
        case seqno(Seqno)
    }

    /// The decision about a message of the stream.
    package enum Decision: Hashable, Sendable {
        case beginSnapshot(SnapshotRange)
        case apply
        /// Keep the list until the snapshot is complete (`VBucketCore.announceOutstanding`).
        case announce
        /// Record the purge before any change of the snapshot is applied (`VBucketCore.notePurge`).
        case notePurge
        /// Advance the vBucket's high seqno without a change (`VBucketCore.advance`).
        case advance(Seqno)
        case refuse(Violation)
    }

    private enum State: Hashable {
        case idle
        case asked(DCPStreamRequest)
        case comparing(DCPStreamRequest, rollback: Seqno)
        case streaming
        case rewinding
    }

    private var resumePoint: ResumePoint
    /// The producer's failover log; the copy adopts it entry by entry.
    private var producerLog: FailoverLog?
    /// The vBucket UUID of the history that the open snapshot belongs to; nil after a restart.
    private var snapshotUUID: VBucketUUID?
    /// The logs were compared since `open`: the next rollback is not compared again.
    private var hasCompared = false
    private var state = State.idle
    /// The number of covered changes of the copy that the producer's history lacks, at a `rewind`; 0
    /// if that is unknown.
    package private(set) var changesAlone: UInt64 = 0

    package init(_ resumePoint: ResumePoint) {
        self.resumePoint = resumePoint
    }

    /// The seqno up to which the copy is complete.
    package var covered: Seqno { resumePoint.openSnapshot?.start ?? resumePoint.high }

    package var high: Seqno { resumePoint.high }

    // MARK: Opening

    /// Requests the stream from the copy's position, at first or after a connection was lost.
    package mutating func open() -> Step {
        hasCompared = false
        let newest = resumePoint.log.current.uuid
        return ask(resumePoint.openSnapshot == nil ? newest : snapshotUUID ?? newest)
    }

    private mutating func ask(_ uuid: VBucketUUID) -> Step {
        let snapshot = resumePoint.openSnapshot
        let isEmpty = resumePoint.high == .zero
        let request = DCPStreamRequest(
            start: resumePoint.high,
            end: .last,
            uuid: isEmpty ? VBucketUUID(0) : uuid,
            snapshotStart: snapshot?.start ?? resumePoint.high,
            snapshotEnd: snapshot?.end ?? resumePoint.high
        )
        state = .asked(request)
        return .ask(request)
    }

    /// The producer accepted the request.
    package mutating func accepted(_ log: FailoverLog) -> Step {
        guard case .asked = state else { return .stop }
        producerLog = log
        state = .streaming
        adopt()
        return .follow(log)
    }

    /// The producer requests a rollback.
    package mutating func rolledBack(to seqno: Seqno) -> Step {
        guard case .asked(let request) = state else { return .stop }
        guard !hasCompared else {
            state = .rewinding
            return .rewind(to: min(seqno, covered))
        }
        state = .comparing(request, rollback: seqno)
        return .askLog
    }

    /// The producer sent its failover log: an older history may be common to both.
    package mutating func told(_ log: FailoverLog) -> Step {
        guard case .comparing(let request, let rollback) = state else { return .stop }
        hasCompared = true
        let branch = resumePoint.log.branchPoint(high: covered, log, otherHigh: Seqno(.max))
        if let branch, branch.seqno >= resumePoint.high, branch.uuid != request.uuid {
            return ask(branch.uuid)
        }
        state = .rewinding
        // A rollback to zero may only mean that the producer does not know the requested UUID.
        let isUnknown = !log.entries.contains { $0.uuid == request.uuid }
        let common = min(branch?.seqno ?? .zero, covered)
        // Without a common history it is unknown which changes both have.
        changesAlone = branch == nil ? 0 : covered.value - common.value
        return .rewind(to: isUnknown ? common : min(common, rollback))
    }

    /// Begins again after the copy was rolled back, or was promoted and demoted.
    package mutating func restart(_ resumePoint: ResumePoint) -> Step {
        self = ReplicaStream(resumePoint)
        return open()
    }

    /// Requests the stream again after it ended, when the copy may have changed meanwhile.
    ///
    /// If the copy did not change, its open snapshot still belongs to `snapshotUUID`, and the
    /// request names that UUID. The UUID of the copy's own log may be older, if the producer was
    /// promoted since; a request with it would be answered with a rollback to zero.
    package mutating func reopen(_ resumePoint: ResumePoint) -> Step {
        guard resumePoint == self.resumePoint else { return restart(resumePoint) }
        changesAlone = 0
        return open()
    }

    /// The producer does not have the vBucket, or is not its active node.
    package mutating func refused() -> Step {
        state = .idle
        return .stop
    }

    /// The producer ended the stream.
    package mutating func ended(_ reason: DCPStreamEnd?) -> Step {
        guard case .streaming = state else { return .stop }
        state = .idle
        switch reason {
        case .slow, .backfillFailed, .rollback, .disconnected: return open()
        case .finished, .closed, .stateChanged, .filterEmpty, .privilegesLost, nil: return .stop
        }
    }

    /// The connection is lost; call `open` after the next one is established.
    package mutating func disconnected() { state = .idle }

    // MARK: Following

    package mutating func received(_ marker: DCPSnapshotMarker) -> Decision {
        guard case .streaming = state else { return .refuse(.notStreaming) }
        guard marker.start <= resumePoint.high, marker.end > resumePoint.high,
            marker.end >= floor
        else { return .refuse(.snapshot(marker)) }
        // A snapshot that this one replaces before its end is complete at this one's end.
        let start = resumePoint.openSnapshot?.start ?? resumePoint.high
        resumePoint.openSnapshot = SnapshotRange(start: start, end: marker.end)
        snapshotUUID = producerLog?.current.uuid
        return .beginSnapshot(SnapshotRange(start: marker.start, end: marker.end))
    }

    /// The lowest allowed end of the next snapshot: the open snapshot's end; zero if the copy has
    /// no change of it.
    private var floor: Seqno {
        guard let snapshot = resumePoint.openSnapshot, snapshot.start < resumePoint.high else {
            return .zero
        }
        return snapshot.end
    }

    /// The producer sent the prepares that are outstanding at the end of the open snapshot.
    package func receivedOutstanding() -> Decision {
        guard case .streaming = state else { return .refuse(.notStreaming) }
        return resumePoint.openSnapshot == nil ? .refuse(.outstanding) : .announce
    }

    /// The producer sent up to which seqno it has purged deletions: the open snapshot lacks them.
    ///
    /// Recorded at once, not at the snapshot's end: the copy may continue the snapshot from another
    /// producer that has purged less, also after a crash.
    package func receivedPurge() -> Decision {
        guard case .streaming = state else { return .refuse(.notStreaming) }
        return resumePoint.openSnapshot == nil ? .refuse(.purge) : .notePurge
    }

    /// The producer sent a change, a prepare or an abort; after it is applied, call `applied`.
    package func received(changeAt seqno: Seqno) -> Decision {
        guard case .streaming = state else { return .refuse(.notStreaming) }
        guard let snapshot = resumePoint.openSnapshot, seqno > resumePoint.high,
            seqno <= snapshot.end
        else { return .refuse(.seqno(seqno)) }
        return .apply
    }

    package func received(advancedTo seqno: Seqno) -> Decision {
        guard case .streaming = state else { return .refuse(.notStreaming) }
        guard let snapshot = resumePoint.openSnapshot, seqno >= resumePoint.high,
            seqno <= snapshot.end
        else { return .refuse(.seqno(seqno)) }
        return .advance(seqno)
    }

    /// The copy has applied everything through `seqno`.
    ///
    /// - Returns: If that completed a snapshot, the log to adopt up to the covered seqno; else nil.
    package mutating func applied(through seqno: Seqno) -> FailoverLog? {
        resumePoint.high = max(resumePoint.high, seqno)
        guard let snapshot = resumePoint.openSnapshot, resumePoint.high >= snapshot.end else {
            return nil
        }
        resumePoint.openSnapshot = nil
        snapshotUUID = nil
        adopt()
        return producerLog
    }

    private mutating func adopt() {
        if let known = producerLog?.truncated(to: covered) { resumePoint.log = known }
    }
}
