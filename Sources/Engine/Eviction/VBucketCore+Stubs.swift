package import Bytes
package import Vocabulary

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
