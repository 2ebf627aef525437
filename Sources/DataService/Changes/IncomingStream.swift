internal import Bytes
internal import Engine
internal import Replication
internal import Vocabulary
internal import Wire

/// The stream of one vBucket whose active copy is on another node: a `ReplicaStream` and its copy.
final class IncomingStream {
    enum Phase {
        /// Waits until the copy is loaded, or for a retry. Next: asked, resetting, over.
        case waiting
        /// The request was sent. Next: streaming, waiting, resetting, over.
        case asked
        /// The request was accepted. Next: waiting, over.
        case streaming
        /// The local copy is being emptied. Next: waiting, over.
        case resetting
        /// The map no longer assigns this stream. Final.
        case over
    }

    let address: NodeStreamAddress
    let fence: UInt64
    let bucket: OpenBucket
    let vBucket: VBucket
    var machine: ReplicaStream
    var phase = Phase.waiting
    /// The number of the last request; answers to earlier requests are ignored.
    var asked: UInt64 = 0
    /// The active copy's covered seqno when it accepted the request.
    var target: Seqno?
    var refusals = 0
    /// A callback for the end of loading is registered: one is enough for any number of retries.
    var awaitsLoading = false
    /// The copy's high seqno after the last applied change.
    ///
    /// A different value means that the copy was emptied meanwhile; the stream then has to restart,
    /// since continuing would leave a gap.
    private var standing = Seqno.zero
    /// The last acknowledgement sent.
    var acknowledged: NodeAcknowledgement?
    var listener: UInt64 = 0

    init(_ address: NodeStreamAddress, fence: UInt64, bucket: OpenBucket, vBucket: VBucket) {
        self.address = address
        self.fence = fence
        self.bucket = bucket
        self.vBucket = vBucket
        machine = ReplicaStream(vBucket.withCore { $0.resumePoint })
    }

    func end() {
        phase = .over
        bucket.traffic.ignore(address.vBucket, listener)
    }

    /// The request for the changes after `standing`.
    func request(from standing: ResumePoint) -> ReplicaStream.Step {
        self.standing = standing.high
        return machine.reopen(standing)
    }

    private func isCurrent(_ core: borrowing VBucketCore) -> Bool {
        core.follows(fence) && core.highSeqno == standing
    }

    /// The delay before the next retry; grows with each refusal.
    var backoffNanoseconds: UInt64 { 50_000_000 << UInt64(min(refusals, 5)) }

    /// The outcome of applying a change.
    enum ApplyResult {
        case applied
        /// A value or document has to be fetched from disk first.
        case waits(Wait)
        case memoryIsShort
        /// The copy no longer follows this fence.
        case overtaken
        case violation
    }

    /// One entry of the active copy's change order.
    enum Entry {
        case change(DCPChange)
        case prepare(DCPChange, DurabilityLevel)
        case abort(DCPAbort)

        var seqno: Seqno {
            switch self {
            case .change(let change), .prepare(let change, _): change.meta.seqno
            case .abort(let abort): abort.seqno
            }
        }

        var key: ByteView {
            switch self {
            case .change(let change), .prepare(let change, _): change.key
            case .abort(let abort): abort.key
            }
        }

        /// Needs room in memory: a document, or a tombstone with a value.
        var needsRoom: Bool {
            switch self {
            case .change(let change), .prepare(let change, _):
                !change.meta.isDeleted || !change.value.isEmpty
            case .abort: false
            }
        }
    }

    /// Applies a change and, at the end of a snapshot, the history with it.
    ///
    /// Both happen in one hold of the lock, since a seal may come between two holds.
    func apply(_ entry: Entry, hash: UInt64, _ turn: borrowing ExecutionContext) -> ApplyResult {
        let seqno = entry.seqno
        guard case .apply = machine.received(changeAt: seqno) else { return .violation }
        var (wakesFlusher, isNews, wakesFeeds) = (false, false, false)
        let result: ApplyResult = vBucket.withCore { core in
            guard isCurrent(core) else { return .overtaken }
            switch core.apply(entry, hash: hash, turn) {
            case .applied(let wakes):
                wakesFlusher = wakes
                isNews = recordApplied(seqno, &core)
                wakesFeeds = core.takeOwedStreamWake()
                standing = core.highSeqno
                return .applied
            case .wouldBlock(let wait): return .waits(wait)
            case .temporaryFailure: return .memoryIsShort
            case .known, .refused: return .violation
            }
        }
        if wakesFlusher || isNews { bucket.disk?.markDirty(address.vBucket) }
        if wakesFeeds { bucket.traffic.notify(.changed, of: address.vBucket) }
        return result
    }

    func apply(_ marker: DCPSnapshotMarker) -> ApplyResult {
        guard case .beginSnapshot(let range) = machine.received(marker) else { return .violation }
        return ifCurrent { $0.beginSnapshot(range) }
    }

    /// Changes the copy unless it follows another copy by now.
    private func ifCurrent(_ change: (inout VBucketCore) -> Bool) -> ApplyResult {
        vBucket.withCore { core in
            guard isCurrent(core) else { return .overtaken }
            return change(&core) ? .applied : .violation
        }
    }

    /// Applies the list of prepares that are outstanding at the end of the current snapshot.
    func apply(outstanding seqnos: [Seqno]) -> ApplyResult {
        guard case .announce = machine.receivedOutstanding() else { return .violation }
        return ifCurrent { $0.announceOutstanding(seqnos) }
    }

    /// Applies what the active copy has purged: these tombstones never arrive here.
    func apply(_ purge: NodePurge) -> ApplyResult {
        guard case .notePurge = machine.receivedPurge() else { return .violation }
        return ifCurrent { core in
            core.notePurge(through: purge.seqno, maxRevision: purge.maxRevision)
            return true
        }
    }

    func apply(advancedTo seqno: Seqno) -> ApplyResult {
        guard case .advance = machine.received(advancedTo: seqno) else { return .violation }
        var (isNews, wakesFeeds) = (false, false)
        let result: ApplyResult = vBucket.withCore { core in
            guard isCurrent(core) else { return .overtaken }
            guard core.advance(to: seqno) else { return .violation }
            standing = core.highSeqno
            isNews = recordApplied(seqno, &core) || core.takePendingWakeup()
            wakesFeeds = core.takeOwedStreamWake()
            return .applied
        }
        if isNews { bucket.disk?.markDirty(address.vBucket) }
        if wakesFeeds { bucket.traffic.notify(.changed, of: address.vBucket) }
        return result
    }

    /// Whether the copy became intact, which has to be persisted.
    private func recordApplied(_ seqno: Seqno, _ core: inout VBucketCore) -> Bool {
        guard let log = machine.applied(through: seqno) else { return false }
        core.adoptHistory(log)
        return noteIntact(&core)
    }

    private func noteIntact(_ core: inout VBucketCore) -> Bool {
        guard let target, core.coveredSeqno >= target else { return false }
        return core.noteIntact()
    }

    /// Starts following the accepted stream.
    ///
    /// - Returns: False if the copy no longer follows this fence.
    func begin(_ log: FailoverLog, high: Seqno) -> Bool {
        phase = .streaming
        refusals = 0
        target = high
        var isNews = false
        let isFollowed = vBucket.withCore { core in
            guard isCurrent(core) else { return false }
            let before = core.failoverLog
            core.adoptHistory(log)
            isNews = noteIntact(&core) || core.failoverLog != before
            return true
        }
        if isNews { bucket.disk?.markDirty(address.vBucket) }
        return isFollowed
    }

    /// The acknowledgement to send; nil if nothing has changed since the last one.
    func acknowledgement() -> NodeAcknowledgement? {
        guard phase == .streaming else { return nil }
        let now: NodeAcknowledgement? = vBucket.withCore { core in
            guard isCurrent(core) else { return nil }
            return NodeAcknowledgement(
                fence: fence,
                covered: core.coveredSeqno,
                onDisk: core.coveredOnDisk
            )
        }
        guard let now, now != acknowledged else { return nil }
        acknowledged = now
        return now
    }
}

extension VBucketCore {
    var resumePoint: ResumePoint {
        ResumePoint(log: failoverLog, high: highSeqno, openSnapshot: openSnapshot)
    }

    fileprivate mutating func apply(
        _ entry: IncomingStream.Entry,
        hash: UInt64,
        _ turn: borrowing ExecutionContext
    ) -> ApplyOutcome {
        switch entry {
        case .change(let change):
            apply(change.meta, key: change.key, hash: hash, value: change.value, turn)
        case .prepare(let change, let level):
            applyPrepare(
                change.meta,
                level: level,
                key: change.key,
                hash: hash,
                value: change.value,
                turn
            )
        case .abort(let abort):
            applyAbort(at: abort.seqno, of: abort.prepare, key: abort.key, hash: hash, turn)
        }
    }
}
