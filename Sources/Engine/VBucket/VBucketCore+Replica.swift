package import Bytes
package import Vocabulary

/// The result of applying a change that the active copy sent.
package enum ApplyOutcome {
    case applied(wakesFlusher: Bool)
    /// The copy already has this change: the stream began below the copy's high seqno.
    case known
    /// A version must be fetched from disk first; then apply again.
    case wouldBlock(Wait)
    /// Memory is short: the caller retries later.
    case temporaryFailure
    /// This copy is not a replica, or the change is outside the announced snapshot.
    case refused
}

/// The replica's side: seqnos, CAS and revisions come from the active copy.
///
/// - Inside a snapshot the copy has a state that the active copy never had, so `coveredSeqno` stays
///   at the snapshot's start until its last change. The stored record does the same.
/// - A snapshot that begins inside another one replaces it and keeps its start.
extension VBucketCore {
    /// The seqno up to which the copy is complete: the last complete snapshot's end.
    package var coveredSeqno: Seqno { openSnapshot?.start ?? highSeqno }

    /// The covered seqno that would remain after a crash.
    ///
    /// The result may be lower than the persisted seqno: the stored record may still be inside a
    /// snapshot that has ended in memory since. The snapshot's end counts once it is persisted.
    package var coveredOnDisk: Seqno {
        isPersistent ? min(coveredSeqno, persistedCovered) : coveredSeqno
    }

    /// Makes the copy active.
    ///
    /// - Parameters:
    ///   - uuid: The UUID of a history that begins at the covered seqno, because another copy may
    ///     have later changes. Nil if the old active copy handed over all its changes.
    ///   - fence: The fence of the map.
    package mutating func promote(_ uuid: VBucketUUID?, fence: UInt64 = 0) {
        if let uuid {
            failoverLog.begin(uuid, at: coveredSeqno, fence: fence)
        } else {
            precondition(openSnapshot == nil, "a copy that takes over has no open snapshot")
        }
        endSnapshotEarly()
        inheritPrepares()
        state = .active
        resumeReaders()
    }

    /// Begins a snapshot that the active copy announced.
    ///
    /// - Returns: False, without a change, if this copy is not a loaded replica, or the snapshot
    ///   starts above its high seqno or ends before its changes or the open snapshot's.
    package mutating func beginSnapshot(_ range: SnapshotRange) -> Bool {
        // An announced snapshot of which no change has arrived does not restrict the next snapshot.
        let begun = coveredSeqno < highSeqno ? openSnapshot?.end : nil
        guard case .replica = state, isLoaded, range.start <= highSeqno,
            range.end >= max(highSeqno, begun ?? .zero)
        else { return false }
        let start = openSnapshot?.start ?? highSeqno
        if openSnapshot == nil { holdSnapshotStart() }
        endSnapshotEarly()
        openSnapshot = range.end > highSeqno ? SnapshotRange(start: start, end: range.end) : nil
        if openSnapshot == nil { resumeReaders() }
        return true
    }

    /// Applies a document or tombstone of the announced snapshot.
    ///
    /// - Parameters:
    ///   - meta: The metadata, with the active copy's seqno, CAS and revision.
    ///   - key: The key.
    ///   - hash: The key's hash.
    ///   - value: The value; must lie outside the table.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: `applied`, or why the change was not applied.
    package mutating func apply(
        _ meta: DocumentMeta,
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        _ turn: borrowing ExecutionContext
    ) -> ApplyOutcome {
        guard case .replica = state else { return .refused }
        guard isLoaded else { return .wouldBlock(.warmup) }
        guard meta.seqno > highSeqno else { return .known }
        guard let snapshot = openSnapshot, meta.seqno <= snapshot.end else { return .refused }
        let found = table.find(key, hash: hash)
        if let wait = missing(found, hash, tombstones: true) { return .wouldBlock(wait) }
        guard admits(meta, key, hash, value.count, replacing: found?.item) else {
            return .temporaryFailure
        }
        if let old = found?.item { forget(old) }
        count(meta)
        clock.advance(past: meta.cas)
        let isFirst = settle(meta, key: key, hash: hash, value, isFresh: true, at: found, turn)
        if !allowsFastWrite { completePrepare(of: key, hash) }
        endSnapshotIfWhole()
        return .applied(wakesFlusher: takePendingWakeup() || isFirst)
    }

    /// Whether there is memory for the change.
    ///
    /// Even a full bucket accepts a deletion that needs no more memory than the value it replaces,
    /// and the commit of a prepare, whose value this copy already has.
    private func admits(
        _ meta: DocumentMeta,
        _ key: ByteView,
        _ hash: UInt64,
        _ count: Int,
        replacing old: Item?
    ) -> Bool {
        if meta.isDeleted, count <= old?.value.count ?? 0 { return true }
        if account.admitsCopy(count) { return true }
        return !allowsFastWrite && prepares.find(key, hash) != nil
    }

    /// Advances the high seqno past changes that the active copy did not send, because they were
    /// deduplicated, purged or invisible.
    ///
    /// - Returns: False if no snapshot is open or `seqno` is above its end.
    package mutating func advance(to seqno: Seqno) -> Bool {
        guard let snapshot = openSnapshot, seqno <= snapshot.end else { return false }
        if seqno > highSeqno {
            setPendingWakeup(isPersistent && checkpoint.isDrained)
            noteInvisible(at: seqno)
            checkpoint.advance(to: seqno)
        }
        endSnapshotIfWhole()
        return true
    }

    mutating func endSnapshotIfWhole() {
        guard let snapshot = openSnapshot, highSeqno >= snapshot.end else { return }
        openSnapshot = nil
        forgetUnannounced()
        resumeReaders()
    }

    /// Adopts the active copy's failover log up to the covered seqno.
    ///
    /// A longer log would claim changes that this copy does not have.
    package mutating func adoptHistory(_ log: FailoverLog) {
        if let known = log.truncated(to: coveredSeqno) { failoverLog = known }
    }

    /// Removes all data from memory and begins a new history, so that the copy can be rebuilt.
    ///
    /// The caller removes the copy from disk before the next commit.
    package mutating func reset(to state: VBucketState, uuid: VBucketUUID, fence: UInt64 = 0) {
        removeAll()
        self.state = state
        failoverLog = FailoverLog(first: uuid, fence: fence)
        ownership.intactFence = nil
        ownership.readyFence = nil
        ownership.servedFence = nil
        endSnapshotEarly()
        purgeSeqno = .zero
        maxRevision = 0
        persistedSeqno = .zero
        restartOrder(at: .zero)
    }
}

/// A version that another cluster made, with its CAS and revision.
package struct WithMetaRequest {
    package struct Options: OptionSet, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        /// Refused if there is a document.
        package static let adds = Self(rawValue: 1)
        /// Replaces the present version, even if it would win.
        package static let skipsConflictResolution = Self(rawValue: 2)
        /// Assigns a CAS here, and ignores the version's.
        package static let regeneratesCAS = Self(rawValue: 4)
    }

    package let key: ByteView
    package let hash: UInt64
    /// The whole stored form; a tombstone's too.
    package let value: ByteView
    /// CAS, revision, flags, expiry and datatype of the version, and whether it is a tombstone.
    ///
    /// The seqno is assigned here. A tombstone's expiry is the time of its deletion here, because
    /// purges compare it with this node's clock.
    package let meta: DocumentMeta
    /// The version to replace; `none` for any.
    package var cas = CAS.none
    package let options: Options

    /// A request whose metadata is valid; nil for a CAS or revision that this vBucket could not
    /// continue.
    ///
    /// - A CAS is nanoseconds since 1970 in 63 bits: later ones are greater, and the largest hides
    ///   a locked document's.
    /// - A revision has 48 bits, as in Couchbase.
    package init?(
        key: ByteView,
        hash: UInt64,
        value: ByteView,
        meta: DocumentMeta,
        options: Options = []
    ) {
        let isCASValid =
            options.contains(.regeneratesCAS) || (meta.cas != .none && meta.cas.value < 1 << 63)
        guard isCASValid, meta.revision < 1 << 48 else { return nil }
        self.key = key
        self.hash = hash
        self.value = value
        self.meta = meta
        self.options = options
    }
}

extension VBucketCore {
    /// Stores a version of another cluster: SET_WITH_META, ADD_WITH_META and DEL_WITH_META.
    ///
    /// Never a prepare: the other cluster has made the write already.
    ///
    /// - Returns: `done`, or `refused(.exists)` if the present version wins or is not the requested
    ///   one; otherwise as `store`.
    package mutating func storeWithMeta(
        _ request: WithMetaRequest,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult {
        mutate(request.key, hash: request.hash, tombstones: true, turn) { core, place, old in
            if request.options.contains(.adds), old != nil { return .refused(.exists) }
            if let refusal = core.refusal(old, request.cas, turn) { return .refused(refusal) }
            var meta = request.meta
            if !request.options.contains(.skipsConflictResolution), let present = place?.item.meta,
                !meta.supersedes(present)
            {
                return .refused(.exists)
            }
            let count = request.value.count
            guard core.account.admits(count, of: count) else { return .wait(.room(count)) }
            meta.seqno = Seqno(core.highSeqno.value + 1)
            if request.options.contains(.regeneratesCAS) {
                meta.cas = core.clock.next(turn.wallNanoseconds)
            } else {
                core.clock.advance(past: meta.cas)
            }
            if meta.isDeleted { meta.expiry = turn.seconds }
            if let item = place?.item { core.forget(item) }
            core.count(meta)
            let isFirst = core.settle(
                meta,
                key: request.key,
                hash: request.hash,
                request.value,
                isFresh: true,
                at: place,
                turn
            )
            let wakes = core.takePendingWakeup() || isFirst
            return .done(core.stored(Put(cas: meta.cas, seqno: meta.seqno, wakesFlusher: wakes)))
        }
    }
}

extension DocumentMeta {
    /// Whether this version of another cluster wins over the present one.
    ///
    /// The higher revision wins; of equal ones the higher CAS, then the later expiry, then the
    /// greater flags. The same version twice, and a deletion with the present revision and CAS, do
    /// not win, so a repeated request changes nothing.
    func supersedes(_ present: DocumentMeta) -> Bool {
        if revision != present.revision { return revision > present.revision }
        if cas != present.cas { return cas > present.cas }
        if isDeleted { return false }
        if expiry != present.expiry { return expiry > present.expiry }
        return flags > present.flags
    }
}
