package import Vocabulary
package import Wire

/// What a copy has, as far as following another one goes.
package struct CopyStanding: Hashable, Sendable {
    package var log: FailoverLog
    package var high: Seqno
    /// The snapshot that is half here, if one is.
    package var openSnapshot: SnapshotRange?

    package init(log: FailoverLog, high: Seqno, openSnapshot: SnapshotRange? = nil) {
        self.log = log
        self.high = high
        self.openSnapshot = openSnapshot
    }
}

/// The consumer's side of one vBucket's stream of changes: what to ask, apply and adopt.
///
/// Lives as long as the copy is a replica, across connections. Its owner sends the requests that
/// it returns, applies the changes that it accepts to the vBucket, and reports the result.
///
/// - Changes are applied inside a snapshot that was announced, in seqno order; anything else is the
///   producer's mistake and ends the stream before it reaches the copy.
/// - The producer's history is adopted only as far as the copy has it whole, growing at each
///   snapshot's end: a log adopted at once would claim changes that are not here.
package struct ReplicaStream: Hashable, Sendable {
    /// What to do about an answer, or the end of a stream.
    package enum Step: Hashable, Sendable {
        case ask(DCPStreamRequest)
        /// The stream runs; adopt this as far as it goes (`VBucketCore.adoptHistory`).
        case follow(FailoverLog)
        /// Find out what the producer's history is.
        case askLog
        /// The copy has changes above `to` that the active one never had, or lacks deletions: it
        /// gives them up, or all it has, and calls `restart`.
        case rewind(to: Seqno)
        /// Nothing is to be had from this node: the cluster map decides what comes next.
        case stop
    }

    /// What the producer did wrong.
    package enum Violation: Hashable, Sendable {
        case notStreaming
        /// The snapshot does not follow on what is here.
        case snapshot(DCPSnapshotMarker)
        /// A list of prepares is a snapshot's, and there is none.
        case outstanding
        /// So is a purge.
        case purge
        /// The change is not in the snapshot that was announced, or not behind the one before.
        case seqno(Seqno)
    }

    /// What is to be done with a message of the stream.
    package enum Verdict: Hashable, Sendable {
        case beginSnapshot(SnapshotRange)
        case apply
        /// Keep it until the snapshot is whole (`VBucketCore.announceOutstanding`).
        case announce
        /// Before anything of the snapshot is taken up (`VBucketCore.notePurge`).
        case notePurge
        /// Tell the vBucket that its snapshot is whole (`VBucketCore.advance`).
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

    private var standing: CopyStanding
    /// What the producer last told; the copy adopts it piece by piece.
    private var producerLog: FailoverLog?
    /// The history that the half-received snapshot is of, while this process remembers it.
    private var snapshotUUID: VBucketUUID?
    /// A request that named a history which the logs have in common was turned down.
    private var hasCompared = false
    private var state = State.idle
    /// Where it is to go back: changes that the copy has whole, and that are not of the producer's
    /// history.
    package private(set) var changesAlone: UInt64 = 0

    package init(_ standing: CopyStanding) {
        self.standing = standing
    }

    /// Everything up to here is here whole.
    package var covered: Seqno { standing.openSnapshot?.start ?? standing.high }

    package var high: Seqno { standing.high }

    // MARK: Opening

    /// Asks from where the copy stands, at first or after a connection was lost.
    package mutating func open() -> Step {
        hasCompared = false
        let newest = standing.log.current.uuid
        return ask(standing.openSnapshot == nil ? newest : snapshotUUID ?? newest)
    }

    private mutating func ask(_ uuid: VBucketUUID) -> Step {
        let snapshot = standing.openSnapshot
        let isEmpty = standing.high == .zero
        let request = DCPStreamRequest(
            start: standing.high,
            end: Seqno((1 << 48) - 1),
            uuid: isEmpty ? VBucketUUID(0) : uuid,
            snapshotStart: snapshot?.start ?? standing.high,
            snapshotEnd: snapshot?.end ?? standing.high
        )
        state = .asked(request)
        return .ask(request)
    }

    /// The producer took the request.
    package mutating func accepted(_ log: FailoverLog) -> Step {
        guard case .asked = state else { return .stop }
        producerLog = log
        state = .streaming
        adopt()
        return .follow(log)
    }

    /// The producer wants the copy to go back.
    package mutating func rolledBack(to seqno: Seqno) -> Step {
        guard case .asked(let request) = state else { return .stop }
        guard !hasCompared else {
            state = .rewinding
            return .rewind(to: min(seqno, covered))
        }
        state = .comparing(request, rollback: seqno)
        return .askLog
    }

    /// The producer told its log: perhaps an older history is one that both have.
    package mutating func told(_ log: FailoverLog) -> Step {
        guard case .comparing(let request, let rollback) = state else { return .stop }
        hasCompared = true
        let branch = standing.log.branchPoint(high: covered, log, otherHigh: Seqno(.max))
        if let branch, branch.seqno >= standing.high, branch.uuid != request.uuid {
            return ask(branch.uuid)
        }
        state = .rewinding
        // A zero may only mean that the producer does not know the history that was named.
        let isUnknown = !log.entries.contains { $0.uuid == request.uuid }
        let common = min(branch?.seqno ?? .zero, covered)
        // It is unknown which changes a copy from before a restart has in common.
        changesAlone = branch == nil ? 0 : covered.value - common.value
        return .rewind(to: isUnknown ? common : min(common, rollback))
    }

    /// The copy gave up what it had to, or was promoted and demoted: this is what it has now.
    package mutating func restart(_ standing: CopyStanding) -> Step {
        self = ReplicaStream(standing)
        return open()
    }

    /// Requests the stream again after it ended, when the copy may have changed meanwhile.
    ///
    /// Where it stands as it did, the half-received snapshot is of the history that it was of: in that
    /// name it goes on. The copy's own name is an older one there if the producer was promoted since, and
    /// would have it begin with nothing.
    package mutating func reopen(_ standing: CopyStanding) -> Step {
        guard standing == self.standing else { return restart(standing) }
        changesAlone = 0
        return open()
    }

    /// The producer does not have the vBucket, or not as an active one.
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

    /// The connection is gone; `open` when there is another.
    package mutating func disconnected() { state = .idle }

    // MARK: Following

    package mutating func received(_ marker: DCPSnapshotMarker) -> Verdict {
        guard case .streaming = state else { return .refuse(.notStreaming) }
        guard marker.start <= standing.high, marker.end > standing.high,
            marker.end >= floor
        else { return .refuse(.snapshot(marker)) }
        // One that was broken off by another is whole at the end of that.
        let start = standing.openSnapshot?.start ?? standing.high
        standing.openSnapshot = SnapshotRange(start: start, end: marker.end)
        snapshotUUID = producerLog?.current.uuid
        return .beginSnapshot(SnapshotRange(start: marker.start, end: marker.end))
    }

    /// Where a snapshot of which something is here has to be taken to.
    ///
    /// An announced snapshot without any change sets no floor.
    private var floor: Seqno {
        guard let snapshot = standing.openSnapshot, snapshot.start < standing.high else {
            return .zero
        }
        return snapshot.end
    }

    /// The prepares that are outstanding at the end of the snapshot that was begun.
    package func receivedOutstanding() -> Verdict {
        guard case .streaming = state else { return .refuse(.notStreaming) }
        return standing.openSnapshot == nil ? .refuse(.outstanding) : .announce
    }

    /// The producer told which deletions it has forgotten: they are not in the snapshot that was begun.
    ///
    /// Noted at once, not with the snapshot's end: the copy may go on in it from another one that
    /// has forgotten less, after a crash too.
    package func receivedPurge() -> Verdict {
        guard case .streaming = state else { return .refuse(.notStreaming) }
        return standing.openSnapshot == nil ? .refuse(.purge) : .notePurge
    }

    /// A change, a prepare or an abort came; the copy's own turn follows, then `applied`.
    package func received(changeAt seqno: Seqno) -> Verdict {
        guard case .streaming = state else { return .refuse(.notStreaming) }
        guard let snapshot = standing.openSnapshot, seqno > standing.high, seqno <= snapshot.end
        else { return .refuse(.seqno(seqno)) }
        return .apply
    }

    package func received(advancedTo seqno: Seqno) -> Verdict {
        guard case .streaming = state else { return .refuse(.notStreaming) }
        guard let snapshot = standing.openSnapshot, seqno >= standing.high, seqno <= snapshot.end
        else { return .refuse(.seqno(seqno)) }
        return .advance(seqno)
    }

    /// The copy has everything through `seqno`.
    ///
    /// - Returns: Where that completed a snapshot, the history to adopt as far as it goes.
    package mutating func applied(through seqno: Seqno) -> FailoverLog? {
        standing.high = max(standing.high, seqno)
        guard let snapshot = standing.openSnapshot, standing.high >= snapshot.end else {
            return nil
        }
        standing.openSnapshot = nil
        snapshotUUID = nil
        adopt()
        return producerLog
    }

    private mutating func adopt() {
        if let known = producerLog?.truncated(to: covered) { standing.log = known }
    }
}
