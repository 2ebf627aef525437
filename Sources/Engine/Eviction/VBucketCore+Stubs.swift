package import Bytes
package import Vocabulary

/// Documents of which memory keeps eight bytes: whole ones under `fullEviction`, and tombstones.
///
/// A command that finds a stub that may belong to its key fetches the version from disk first, so
/// CAS, ADD, revisions and counts are as exact as without stubs; no stub is replaced before that.
extension VBucketCore {
    /// What has to be fetched before anything can be said of a key that has no document in memory.
    ///
    /// - Parameters:
    ///   - place: Where the table has the key, if it has.
    ///   - hash: The key's hash.
    ///   - tombstones: Whether stubs of tombstones matter too, as for writes, which continue the
    ///     revision number. For reads a tombstone equals no document, whichever key it has.
    /// - Returns: What to wait for, or nil where memory knows all there is.
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

    /// Only the disk needs anything of this version, and the disk has all of it.
    @inline(__always)
    func isShrinkable(_ item: Item, through last: Seqno) -> Bool {
        item.state.isDisjoint(with: [.locked, .hasLockCAS]) && item.seqno <= last
    }

    /// All of this version may leave memory, not only its value; while loading, keys are needed.
    @inline(__always)
    func goesWhole(_ item: Item, through last: Seqno, isForced: Bool = false) -> Bool {
        isLoaded && (isForced || ejectsWhole || item.isDeleted)
            && isShrinkable(item, through: last) && !isPrepared(item)
    }

    /// Takes as much of a version out of memory as may go; returns how many bytes that freed.
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
        let (bytes, isValueHere) = (item.blockBytes, !item.isDeleted && !item.isEjected)
        guard table.shrink(place, seqno: item.seqno.value, isDeleted: item.isDeleted) else {
            return eject(place, turn)
        }
        if isValueHere { ejectedCount += 1 }
        // A tombstone's is when it was deleted.
        if !item.isDeleted, item.expiry != 0 { stubExpiry.note(item.expiry) }
        free(item, bytes)
        return SizeClass.footprint(of: bytes)
    }

    /// Puts a version that was fetched in the place of its stub, if there still is one.
    ///
    /// The stub may belong to another key: then the repeated command no longer finds a stub for its
    /// key.
    ///
    /// - Parameters:
    ///   - meta: The version, as it is on disk.
    ///   - key: Its key.
    ///   - valueCount: The length of its value.
    ///   - value: The value, or nil to leave it on disk.
    ///   - turn: The caller's.
    /// - Returns: Whether the version is here now.
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
        precondition(stub.isDeleted == meta.isDeleted, "a version is deleted or it is not")
        let whole = meta.isDeleted ? ByteView.empty : value
        precondition(meta.isDeleted || value.map { $0.count == valueCount } ?? true)
        let count = meta.isDeleted ? 0 : valueCount
        let isEjected = whole == nil && count > 0
        let bytes = Item.bytes(
            for: meta,
            keyCount: key.count,
            valueCount: count,
            ejected: isEjected
        )
        let item = Item(turn.arena.allocate(bytes))
        account.add(SizeClass.footprint(of: bytes))
        item.write(meta, key: key, value: whole ?? .empty, ejectedCount: isEjected ? count : nil)
        table.fill(stub, with: item, hash: hash)
        if !meta.isDeleted, !isEjected { ejectedCount -= 1 }
        return true
    }

    /// The newest version that is known of a key, a tombstone too: for compaction and purge.
    ///
    /// - Parameters:
    ///   - key: The key of a version on disk.
    ///   - hash: Its hash.
    ///   - asked: That version. A stub with this very seqno proves that it lives, as seqnos are
    ///     unique in a vBucket; without one, what other stub there is does not matter.
    /// - Returns: The seqno, or nil where the key is not known.
    package func currentSeqno(of key: ByteView, hash: UInt64, asked: Seqno) -> Seqno? {
        if let item = table.find(key, hash: hash)?.item { return item.seqno }
        if table.findStub(hash, where: { $0.seqno == asked.value }) != nil { return asked }
        return table.findStub(hash) { _ in true }.map { Seqno($0.seqno) }
    }

    /// Whether memory has this version of a key without its value, whatever this copy is to clients.
    package func isEjected(_ key: ByteView, hash: UInt64, at seqno: Seqno) -> Bool {
        guard let item = table.find(key, hash: hash)?.item else { return false }
        return item.seqno == seqno && item.isEjected
    }

    /// What a purge of the disk comes to, here or where this copy is built from: changes from before
    /// `seqno` are incomplete, and documents that come back start above `revision`.
    ///
    /// Recorded before any tombstone is removed, so a reader can detect that they are missing.
    package mutating func notePurge(through seqno: Seqno, maxRevision revision: UInt64) {
        purgeSeqno = max(purgeSeqno, seqno)
        maxRevision = max(maxRevision, revision)
    }

    /// Forgets the stub of a tombstone that was purged from disk.
    mutating func forgetStub(_ hash: UInt64, _ seqno: Seqno) {
        let found = table.findStub(hash) { $0.isDeleted && $0.seqno == seqno.value }
        guard let found else { return }
        table.remove(found, hash: hash)
        tombstoneCount -= 1
    }
}
