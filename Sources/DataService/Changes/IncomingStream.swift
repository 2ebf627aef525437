internal import Bytes
internal import Engine
internal import Replication
internal import Vocabulary
internal import Wire

/// One vBucket that follows another node's: a `ReplicaStream` and what it is about.
final class IncomingStream {
    enum Phase {
        /// Until the copy is loaded, or a moment has passed.
        case waiting
        case asked
        case streaming
        /// What there was is being forgotten.
        case resetting
        /// The map has to say something else first.
        case over
    }

    let address: NodeStreamAddress
    let fence: UInt64
    let bucket: OpenBucket
    let vBucket: VBucket
    var machine: ReplicaStream
    var phase = Phase.waiting
    /// The number of the last request: an answer to another one is none to this stream.
    var asked: UInt64 = 0
    /// What the active copy had when it took the request.
    var target: Seqno?
    var refusals = 0
    /// It is told when its copy is read from disk: once is enough, however often it is asked.
    var awaitsLoading = false
    /// Where the copy stands by what was asked and taken: whoever emptied it meanwhile has it asked
    /// for anew, as going on would leave a hole.
    private var standing = Seqno.zero
    /// What was last acknowledged.
    var acknowledged: NodeAcknowledgement?
    var listener: UInt64 = 0

    init(_ address: NodeStreamAddress, fence: UInt64, bucket: OpenBucket, vBucket: VBucket) {
        self.address = address
        self.fence = fence
        self.bucket = bucket
        self.vBucket = vBucket
        machine = ReplicaStream(vBucket.withCore { $0.copyStanding })
    }

    func end() {
        phase = .over
        bucket.traffic.ignore(address.vBucket, listener)
    }

    /// Asks for what comes behind this.
    func asks(from standing: CopyStanding) -> ReplicaStream.Step {
        self.standing = standing.high
        return machine.reopen(standing)
    }

    private func goesOn(_ core: borrowing VBucketCore) -> Bool {
        core.follows(fence) && core.highSeqno == standing
    }

    /// How long to wait before the next try: longer with each that was refused.
    var backoffNanoseconds: UInt64 { 50_000_000 << UInt64(min(refusals, 5)) }

    /// What became of a change.
    enum Taken {
        case applied
        /// First something has to be fetched from disk.
        case waits(Wait)
        case memoryIsShort
        /// The copy follows this fence no more.
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

        /// Memory has to have room for it.
        var isDocument: Bool {
            switch self {
            case .change(let change), .prepare(let change, _): !change.meta.isDeleted
            case .abort: false
            }
        }
    }

    /// Takes a change up, and the history with it where a snapshot ends: in one hold of the lock,
    /// since a seal may come between any two.
    func take(_ entry: Entry, hash: UInt64, _ turn: borrowing Turn) -> Taken {
        let seqno = entry.seqno
        guard case .apply = machine.received(changeAt: seqno) else { return .violation }
        var (wakesFlusher, isNews, wakesFeeds) = (false, false, false)
        let taken: Taken = vBucket.withCore { core in
            guard goesOn(core) else { return .overtaken }
            switch core.apply(entry, hash: hash, turn) {
            case .applied(let wakes):
                wakesFlusher = wakes
                isNews = noteApplied(seqno, &core)
                wakesFeeds = core.takeOwedStreamWake()
                standing = core.highSeqno
                return .applied
            case .wouldBlock(let wait): return .waits(wait)
            case .temporaryFailure: return .memoryIsShort
            case .known, .refused: return .violation
            }
        }
        if wakesFlusher || isNews { bucket.disk?.noteDirty(address.vBucket) }
        if wakesFeeds { bucket.traffic.tell(.changed, of: address.vBucket) }
        return taken
    }

    func take(_ marker: DCPSnapshotMarker) -> Taken {
        guard case .beginSnapshot(let range) = machine.received(marker) else { return .violation }
        return vBucket.withCore { core in
            guard goesOn(core) else { return .overtaken }
            return core.beginSnapshot(range) ? .applied : .violation
        }
    }

    /// What is outstanding at the end of the snapshot that was begun.
    func take(outstanding seqnos: [Seqno]) -> Taken {
        guard case .announce = machine.receivedOutstanding() else { return .violation }
        return vBucket.withCore { core in
            guard goesOn(core) else { return .overtaken }
            return core.announceOutstanding(seqnos) ? .applied : .violation
        }
    }

    /// Deletions that the active copy has forgotten, and that never come here.
    func take(_ purge: NodePurge) -> Taken {
        guard case .notePurge = machine.receivedPurge() else { return .violation }
        return vBucket.withCore { core in
            guard goesOn(core) else { return .overtaken }
            core.notePurge(through: purge.seqno, maxRevision: purge.maxRevision)
            return .applied
        }
    }

    func take(advancedTo seqno: Seqno) -> Taken {
        guard case .advance = machine.received(advancedTo: seqno) else { return .violation }
        var (isNews, wakesFeeds) = (false, false)
        let taken: Taken = vBucket.withCore { core in
            guard goesOn(core) else { return .overtaken }
            guard core.advance(to: seqno) else { return .violation }
            standing = core.highSeqno
            isNews = noteApplied(seqno, &core) || core.takeOwedWake()
            wakesFeeds = core.takeOwedStreamWake()
            return .applied
        }
        if isNews { bucket.disk?.noteDirty(address.vBucket) }
        if wakesFeeds { bucket.traffic.tell(.changed, of: address.vBucket) }
        return taken
    }

    /// Whether the copy became intact, which is worth writing down.
    private func noteApplied(_ seqno: Seqno, _ core: inout VBucketCore) -> Bool {
        guard let log = machine.applied(through: seqno) else { return false }
        core.adoptHistory(log)
        return noteIntact(&core)
    }

    private func noteIntact(_ core: inout VBucketCore) -> Bool {
        guard let target, core.coveredSeqno >= target else { return false }
        return core.noteIntact()
    }

    /// The stream runs; false where the copy follows this fence no more.
    func begin(_ log: FailoverLog, high: Seqno) -> Bool {
        phase = .streaming
        refusals = 0
        target = high
        var isNews = false
        let isTaken = vBucket.withCore { core in
            guard goesOn(core) else { return false }
            let before = core.failoverLog
            core.adoptHistory(log)
            isNews = noteIntact(&core) || core.failoverLog != before
            return true
        }
        if isNews { bucket.disk?.noteDirty(address.vBucket) }
        return isTaken
    }

    /// What the active copy is to be told; nil where that is nothing new.
    func acknowledgement() -> NodeAcknowledgement? {
        guard phase == .streaming else { return nil }
        let now: NodeAcknowledgement? = vBucket.withCore { core in
            guard goesOn(core) else { return nil }
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
    var copyStanding: CopyStanding {
        CopyStanding(log: failoverLog, high: highSeqno, openSnapshot: openSnapshot)
    }

    fileprivate mutating func apply(
        _ entry: IncomingStream.Entry,
        hash: UInt64,
        _ turn: borrowing Turn
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
