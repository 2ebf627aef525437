package import Bytes
package import Vocabulary

/// The result of one slice of a pager's pass over a vBucket.
package struct PagerSlice {
    /// The start of the next slice; nil at the end of the vBucket.
    package var next: UInt64?
    /// Bytes that were freed.
    package var freed = 0
    /// Documents ejected, expired or deleted.
    package var count = 0
    /// The flusher had persisted everything before this slice and has to be woken.
    package var wakesFlusher = false

    package init() {}
}

/// The pagers' work on a vBucket, one slice for each hold of its lock.
///
/// A visit only collects places, which stay valid while documents are replaced. A removal moves
/// entries at and after a place, so places are removed from the last to the first.
extension VBucketCore {
    /// Samples the ejectable bytes of up to `groupsMax` groups from `start` on.
    package func sample(_ sweep: inout EvictionSweep, from start: UInt64, groupsMax: Int) {
        let last = min(checkpoint.lowestCursor, persistedSeqno)
        _ = table.visit(from: start, groupsMax: groupsMax) { item in
            sweep.noteLookedAt()
            if isPersistent, goesWhole(item, through: last) {
                let bytes = SizeClass.footprint(of: item.blockBytes)
                sweep.note(frequency: item.isDeleted ? 0 : item.frequency, bytes: bytes)
            } else if isPersistent, isEjectable(item, through: last) {
                let frequency = item.isDeleted ? 0 : item.frequency
                sweep.note(frequency: frequency, bytes: item.valueCount)
            } else if !isPersistent, isDeletable(item) {
                // The whole block counts: if memory is short, the tombstone is removed as well.
                let bytes = SizeClass.footprint(of: item.blockBytes)
                sweep.note(frequency: item.frequency, bytes: bytes)
            }
        }
    }

    /// Ejects documents at or below the frequency `threshold` in some groups; halves other
    /// counters.
    ///
    /// Ejects values, or whole documents if the bucket's policy is `fullEviction`; tombstones under
    /// any policy.
    ///
    /// - Parameters:
    ///   - start: The first group: 0, or the previous slice's `next`.
    ///   - groupsMax: Maximum groups to visit.
    ///   - threshold: The highest frequency of use to eject.
    ///   - isWhole: Whether to eject whole documents under any policy.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: The ejected bytes and documents, and the start of the next slice.
    package mutating func ejectSlice(
        from start: UInt64,
        groupsMax: Int,
        threshold: UInt8,
        isWhole: Bool = false,
        _ turn: borrowing ExecutionContext
    ) -> PagerSlice {
        var slice = PagerSlice()
        var victims: [HashTable.Place] = []
        let last = min(checkpoint.lowestCursor, persistedSeqno)
        slice.next = table.visitPlaces(from: start, groupsMax: groupsMax) { place in
            let item = place.item
            if item.frequency > threshold, !item.isDeleted {
                item.frequency /= 2
            } else if goesWhole(item, through: last, isForced: isWhole)
                || isEjectable(item, through: last)
            {
                victims.append(place)
            }
        }
        for victim in victims {
            let freed = evict(victim, isForced: isWhole, turn)
            slice.freed += freed
            if freed > 0 { slice.count += 1 }
        }
        return slice
    }

    /// Whether a bucket without a disk may delete this document if memory is short.
    private func isDeletable(_ item: Item) -> Bool {
        item.state.isDisjoint(with: [.deleted, .locked]) && !isPrepared(item)
    }

    /// Deletes documents at or below `threshold` in some groups, for buckets without a disk.
    ///
    /// Deletes on the active copy only: replicas receive the tombstones.
    package mutating func deleteSlice(
        from start: UInt64,
        groupsMax: Int,
        threshold: UInt8,
        _ turn: borrowing ExecutionContext
    ) -> PagerSlice {
        var slice = PagerSlice()
        guard case .active = state, isWritable else { return slice }
        var victims: [HashTable.Place] = []
        slice.next = table.visitPlaces(from: start, groupsMax: groupsMax) { place in
            let item = place.item
            guard isDeletable(item) else { return }
            if item.frequency > threshold {
                item.frequency /= 2
            } else {
                victims.append(place)
            }
        }
        for victim in victims {
            let before = SizeClass.footprint(of: victim.item.blockBytes)
            let tombstone = bury(victim, isExpired: false, turn)
            slice.freed += before - SizeClass.footprint(of: tombstone.blockBytes)
            slice.count += 1
        }
        slice.wakesFlusher = takePendingWakeup()
        return slice
    }

    /// Turns expired documents of some groups into tombstones, and removes expired locks.
    ///
    /// Documents whose attributes are on disk only are left to the next `StubScan`. Only on the
    /// active copy: replicas receive the tombstones.
    package mutating func expireSlice(
        from start: UInt64,
        groupsMax: Int,
        _ turn: borrowing ExecutionContext
    ) -> PagerSlice {
        var slice = PagerSlice()
        guard case .active = state, isWritable else { return slice }
        var due: [HashTable.Place] = []
        var locked: [Item] = []
        let now = turn.seconds
        slice.next = table.visitPlaces(from: start, groupsMax: groupsMax) { place in
            let item = place.item
            guard !item.isDeleted else { return }
            let expiry = item.expiry
            if expiry != 0, expiry <= now {
                if !isPrepared(item) { due.append(place) }
            } else if item.state.contains(.locked) {
                locked.append(item)
            }
        }
        for item in locked where !isLocked(item, turn) {
            lockExpiries[item.key.bytes] = nil
            item.state.remove(.locked)
        }
        for place in due {
            if expire(place, turn) {
                slice.count += 1
            } else {
                // A scan of the disk finds the attributes that the tombstone keeps.
                stubExpiry.note(place.item.expiry)
            }
        }
        slice.wakesFlusher = takePendingWakeup()
        return slice
    }
}

/// The memory of a vBucket that could be freed if every change were persisted and read by all
/// cursors.
extension VBucketCore {
    /// Adds the bytes that some groups from `start` on could free at most, so that a pager can
    /// decide whether it can ever free enough.
    ///
    /// Locked and prepared documents count, since locks and prepares end by themselves. Documents
    /// that a bucket without a disk keeps until a client deletes them count, too.
    ///
    /// - Parameters:
    ///   - bytes: Incremented by the bytes that could be freed.
    ///   - start: The first group: 0, or the previous call's result.
    ///   - groupsMax: Maximum groups to visit.
    /// - Returns: The start of the next call; nil at the end of the vBucket.
    package func addRemovable(
        to bytes: inout UInt64,
        from start: UInt64,
        groupsMax: Int
    ) -> UInt64? {
        if start == 0 {
            let held = checkpoint.bytesHeld + prepareBytes
            // The chunk of the next change is never freed.
            bytes += UInt64(max(0, held - ChangeChunks.chunkBytes))
        }
        return table.visitOnce(from: start, groupsMax: groupsMax) { item in
            let whole = item.blockBytes
            let isKept = isPersistent && !ejectsWhole && !item.isDeleted
            guard isKept else {
                bytes += UInt64(SizeClass.footprint(of: whole))
                return
            }
            guard !item.isEjected else { return }
            let rest = SizeClass.footprint(of: whole - item.valueCount)
            bytes += UInt64(SizeClass.footprint(of: whole) - rest)
        }
    }
}

/// The earliest expiry of all documents that are stubs in memory, and of expired documents whose
/// attributes are on disk only.
///
/// A stub has no room for an expiry, so the vBucket keeps one time for all stubs. It may be too
/// early, as filling a stub does not recompute it; it is never too late.
struct StubExpiry {
    /// Absolute seconds; `.max` if no stub has an expiry.
    private(set) var earliest: UInt32 = .max
    /// How often the table was emptied.
    ///
    /// Seqnos restart then, so versions that were read from disk before do not match later stubs.
    private(set) var emptyings: UInt64 = 0

    mutating func note(_ expiry: UInt32) { earliest = min(earliest, expiry) }

    /// Returns the time and resets it, before a scan that determines it anew.
    mutating func take() -> UInt32 { exchange(&earliest, with: .max) }

    mutating func noteEmptied() {
        earliest = .max
        emptyings += 1
    }
}

/// A scan of a vBucket's versions on disk for stubs whose documents have expired.
package struct StubScan: Sendable {
    /// The high seqno at the start.
    ///
    /// Later stubs update `StubExpiry` when they are made.
    package let last: Seqno
    fileprivate let earliest: UInt32
    fileprivate let emptyings: UInt64
}

/// The result of a scan for a version on disk.
package enum StubExpiration: Hashable, Sendable {
    /// The document expired; then the flusher and streams have to be woken.
    case expired
    /// The document expired, and its tombstone keeps attributes: `expireStub` needs the value.
    case needsValue
    /// The version is old, in memory, or expires later.
    case kept
}

/// Expires documents without an access of which the disk has what memory lacks: fully ejected ones,
/// and ones with extended attributes whose value is ejected.
///
/// Works on the active copy only, as `expireSlice`: replicas receive the tombstones.
extension VBucketCore {
    private var mayExpire: Bool { state == .active && isWritable }

    /// Whether a stub may have expired, so that a scan of the disk is needed.
    package func mayHaveDueStubs(_ turn: borrowing ExecutionContext) -> Bool {
        mayExpire && stubExpiry.earliest <= turn.seconds
    }

    /// Begins a scan of the disk; nil if no stub has expired.
    ///
    /// The caller passes every version up to `last` to `expireStub`, or calls `abandon`.
    package mutating func beginStubScan(_ turn: borrowing ExecutionContext) -> StubScan? {
        guard mayHaveDueStubs(turn) else { return nil }
        return StubScan(
            last: persistedSeqno,
            earliest: stubExpiry.take(),
            emptyings: stubExpiry.emptyings
        )
    }

    /// Whether the versions that `scan` reads still belong to this copy, and may be expired by it.
    package func isUnderWay(_ scan: StubScan) -> Bool {
        mayExpire && stubExpiry.emptyings == scan.emptyings
    }

    /// Ends a scan early: restores its expiry time, so that the next scan is due at once.
    package mutating func abandon(_ scan: StubScan) {
        if stubExpiry.emptyings == scan.emptyings { stubExpiry.note(scan.earliest) }
    }

    /// Replaces a document by a tombstone if this version is a stub's and has expired, or is the
    /// version of an expired document whose attributes memory does not have.
    ///
    /// If a stub's version expires later, or its key has a prepare, its expiry is recorded for the
    /// next scan. Called only during a scan.
    ///
    /// - Parameters:
    ///   - meta: A version, as it is on disk; may be an old one.
    ///   - key: Its key.
    ///   - valueCount: The length of its value.
    ///   - value: Its value; nil if it was not read.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: What became of the document.
    package mutating func expireStub(
        _ meta: DocumentMeta,
        key: ByteView,
        valueCount: Int,
        value: ByteView? = nil,
        _ turn: borrowing ExecutionContext
    ) -> StubExpiration {
        guard !meta.isDeleted, meta.expiry != 0 else { return .kept }
        let hash = table.hash(key)
        let resident = table.find(key, hash: hash)?.item
        if let resident {
            guard resident.seqno == meta.seqno, awaitsAttributes(resident) else { return .kept }
        } else {
            let stub = table.findStub(hash) { $0.seqno == meta.seqno.value && !$0.isDeleted }
            guard stub != nil else { return .kept }
        }
        guard meta.expiry <= turn.seconds, prepares.find(key, hash) == nil else {
            if resident == nil { stubExpiry.note(meta.expiry) }
            return .kept
        }
        // Without attributes the tombstone has no value, so the document's value is not needed.
        if meta.datatype.contains(.xattr), value == nil { return .needsValue }
        let isHere =
            if resident != nil, let value {
                install(value, of: meta.seqno, key: key, hash: hash, turn)
            } else {
                restore(meta, key: key, valueCount: valueCount, value: value, turn)
            }
        guard isHere, let place = table.find(key, hash: hash), expire(place, turn) else {
            return .kept
        }
        return .expired
    }
}

/// Stubs: eight bytes in memory for a whole document under `fullEviction`, or for a tombstone.
///
/// A stub has two bits of its version: whether it is deleted, and whether its value has extended
/// attributes.
///
/// A command that finds a stub that may belong to its key fetches the version from disk first, so
/// CAS, ADD, revisions and counts are as exact as without stubs; no stub is replaced before that.
extension VBucketCore {
    /// The stub to fetch before a command can decide about a key without a document in memory.
    ///
    /// - Parameters:
    ///   - place: The key's place in the table; nil if the table does not have the key.
    ///   - hash: The key's hash.
    ///   - tombstones: Whether to fetch stubs of tombstones too: true for writes, which continue
    ///     the revision number. For reads a tombstone equals a missing document.
    /// - Returns: The version to wait for; nil if no stub can belong to the key.
    @inline(__always)
    func missing(_ place: HashTable.Place?, _ hash: UInt64, tombstones: Bool) -> Wait? {
        guard place == nil, table.stubCount > 0 else { return nil }
        return missing(hash, tombstones)
    }

    private func missing(_ hash: UInt64, _ tombstones: Bool) -> Wait? {
        if let stub = table.findStub(hash, where: { !$0.isDeleted }) {
            return .metadata(Seqno(stub.seqno))
        }
        guard tombstones else { return nil }
        return table.findStub(hash) { _ in true }.map { .metadata(Seqno($0.seqno)) }
    }

    /// Whether this version is persisted, every cursor has read it, and no lock needs it in memory.
    @inline(__always)
    func isShrinkable(_ item: Item, through last: Seqno) -> Bool {
        item.state.isDisjoint(with: [.locked, .hasLockCAS]) && item.seqno <= last
    }

    /// Whether this version may be ejected as a whole.
    ///
    /// During warmup it may not: keys are needed.
    @inline(__always)
    func goesWhole(_ item: Item, through last: Seqno, isForced: Bool = false) -> Bool {
        isLoaded && (isForced || ejectsWhole || item.isDeleted)
            && isShrinkable(item, through: last) && !isPrepared(item)
    }

    /// Ejects a version as a whole, or else its value; returns the bytes that were freed.
    mutating func evict(
        _ place: HashTable.Place,
        isForced: Bool,
        _ turn: borrowing ExecutionContext
    ) -> Int {
        let item = place.item
        let last = min(checkpoint.lowestCursor, persistedSeqno)
        guard goesWhole(item, through: last, isForced: isForced) else {
            return eject(place, turn)
        }
        let bytes = item.blockBytes
        guard table.shrink(place) else { return eject(place, turn) }
        if item.isDeleted {
            if item.isEjected { ejected.tombstones -= 1 }
        } else if !item.isEjected {
            ejected.documents += 1
        }
        // A tombstone's `expiry` is the time of its deletion.
        if !item.isDeleted, item.expiry != 0 { stubExpiry.note(item.expiry) }
        free(item, bytes)
        return SizeClass.footprint(of: bytes)
    }

    /// Replaces a stub by its fetched version, if the stub still exists.
    ///
    /// The stub may belong to another key: then the repeated command no longer finds a stub for its
    /// key.
    ///
    /// - Parameters:
    ///   - meta: The version, as it is on disk.
    ///   - key: Its key.
    ///   - valueCount: The length of its value.
    ///   - value: The value, or nil to leave it on disk.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: Whether the version is in memory now.
    @discardableResult
    package mutating func restore(
        _ meta: DocumentMeta,
        key: ByteView,
        valueCount: Int,
        value: ByteView?,
        _ turn: borrowing ExecutionContext
    ) -> Bool {
        let hash = table.hash(key)
        guard let stub = table.findStub(hash, where: { $0.seqno == meta.seqno.value }) else {
            return false
        }
        precondition(stub.isDeleted == meta.isDeleted, "a stub and its version agree on deletion")
        precondition(
            stub.hasAttributes == meta.datatype.contains(.xattr),
            "a stub and its version agree on attributes"
        )
        precondition(value.map { $0.count == valueCount } ?? true, "a version has one value")
        let isEjected = value == nil && valueCount > 0
        let item = makeItem(
            meta,
            key: key,
            value: value ?? .empty,
            ejectedCount: isEjected ? valueCount : nil,
            turn
        )
        table.fill(stub, with: item, hash: hash)
        if meta.isDeleted {
            if isEjected { ejected.tombstones += 1 }
        } else if !isEjected {
            ejected.documents -= 1
        }
        return true
    }

    /// How often the table was emptied; a read of the disk is valid only while it is unchanged.
    package var emptyings: UInt64 { stubExpiry.emptyings }

    /// Whether a stub that may belong to the key has extended attributes.
    ///
    /// For tests of the bit: a write reads the value of any stub (docs/design/stubs.md).
    package func mayHaveStubWithAttributes(_ hash: UInt64) -> Bool {
        table.findStub(hash) { $0.hasAttributes } != nil
    }

    /// The newest version of a key, also a tombstone, for compaction and purge.
    ///
    /// - Parameters:
    ///   - key: The key of a version on disk.
    ///   - hash: Its hash.
    ///   - asked: That version's seqno. A stub with this seqno proves that the version is the
    ///     newest, as seqnos are unique in a vBucket; other stubs are ignored.
    /// - Returns: The newest version's seqno; nil if memory does not have the key.
    package func currentSeqno(of key: ByteView, hash: UInt64, asked: Seqno) -> Seqno? {
        if let item = table.find(key, hash: hash)?.item { return item.seqno }
        if table.findStub(hash, where: { $0.seqno == asked.value }) != nil { return asked }
        return table.findStub(hash) { _ in true }.map { Seqno($0.seqno) }
    }

    /// Whether memory has this version of a key without its value, in any state of the copy.
    package func isEjected(_ key: ByteView, hash: UInt64, at seqno: Seqno) -> Bool {
        guard let item = table.find(key, hash: hash)?.item else { return false }
        return item.seqno == seqno && item.isEjected
    }

    /// Records a purge of tombstones, here or on the copy that this copy is built from: deletions
    /// up to `seqno` may be missing, and documents that are created again start above `revision`.
    ///
    /// Recorded before any tombstone is removed, so a reader can detect that they are missing.
    package mutating func notePurge(through seqno: Seqno, maxRevision revision: UInt64) {
        purgeSeqno = max(purgeSeqno, seqno)
        maxRevision = max(maxRevision, revision)
    }

    /// Removes the stub of a tombstone that was purged from disk.
    mutating func forgetStub(_ hash: UInt64, _ seqno: Seqno) {
        let found = table.findStub(hash) { $0.isDeleted && $0.seqno == seqno.value }
        guard let found else { return }
        table.remove(found, hash: hash)
        tombstoneCount -= 1
    }
}
