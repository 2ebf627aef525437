internal import Bytes
package import Vocabulary

/// A prepare on disk that was outstanding when its lane was last committed.
package struct StoredPrepare: Hashable, Sendable {
    /// The metadata of the prepared document; seqno and CAS are those of the prepare.
    package var meta: DocumentMeta
    package var level: DurabilityLevel
    package var key: [UInt8]
    package var value: [UInt8]

    package init(meta: DocumentMeta, level: DurabilityLevel, key: [UInt8], value: [UInt8]) {
        self.meta = meta
        self.level = level
        self.key = key
        self.value = value
    }
}

/// The rows of the `prepares` table.
///
/// - A row exists from the commit that covers the prepare's seqno to the commit that covers its
///   completion. All rows of a vBucket read in one transaction are its outstanding prepares.
struct PrepareRows {
    private let insertion: Statement
    private let deletion: Statement
    private let selection: PrepareSelection
    private let seal: BlockSeal

    init(_ connection: SQLiteConnection, seal: BlockSeal) throws(StorageError) {
        self.seal = seal
        // A batch whose commit failed may be in the file anyway, and is repeated.
        insertion = try connection.prepare(
            "INSERT OR REPLACE INTO prepares VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        deletion = try connection.prepare("DELETE FROM prepares WHERE vb = ? AND seqno = ?")
        selection = try PrepareSelection(connection, seal: seal)
    }

    func insert(_ batch: CommitBatch) throws(StorageError) {
        for (entry, level) in zip(batch.prepares.entries, batch.levels) {
            let (key, value) = (batch.prepares.key(entry), batch.prepares.value(entry))
            let numbers: [UInt64] = [
                UInt64(entry.vBucket), entry.seqno, UInt64(level.rawValue), entry.cas,
                entry.revision, UInt64(entry.flags), UInt64(entry.expiry),
                UInt64(entry.state >> DocumentBuffer.State.datatypeShift),
                UInt64(entry.state & DocumentBuffer.State.deleted),
            ]
            for (index, number) in numbers.enumerated() {
                insertion.bind(Int32(index + 1), number: number)
            }
            insertion.bind(10, number: seal.checksum(numbers, [key, value]))
            insertion.bind(11, borrowing: key)
            insertion.bind(12, borrowing: value)
            try insertion.run()
        }
    }

    func delete(_ vBucket: UInt16, _ seqno: UInt64) throws(StorageError) {
        try deletion.run(vBucket, seqno)
    }

    /// All prepares of a vBucket, by seqno.
    func read(_ vBucket: UInt16) throws(StorageError) -> [StoredPrepare] {
        try selection.read(vBucket)
    }
}

/// Reads rows of the `prepares` table, on any connection.
struct PrepareSelection {
    private let selection: Statement
    private let seal: BlockSeal
    private let path: String

    init(_ connection: SQLiteConnection, seal: BlockSeal) throws(StorageError) {
        self.seal = seal
        path = connection.path
        selection = try connection.prepare(
            """
            SELECT seqno, level, cas, revision, flags, expiry, datatype, deleted, checksum, key, \
            body FROM prepares WHERE vb = ? ORDER BY seqno
            """
        )
    }

    /// All prepares of a vBucket, by seqno.
    func read(_ vBucket: UInt16) throws(StorageError) -> [StoredPrepare] {
        selection.bind(vBucket)
        defer { selection.reset() }
        var found: [StoredPrepare] = []
        while try selection.step() {
            guard let prepare = prepare(vBucket) else {
                throw StorageError(
                    .damaged,
                    "\(path) is damaged: the prepare at seqno \(selection.unsigned(0)) of "
                        + "\(VBucketID(vBucket)) is invalid"
                )
            }
            found.append(prepare)
        }
        return found
    }

    private func prepare(_ vBucket: UInt16) -> StoredPrepare? {
        let numbers = [UInt64(vBucket)] + (0..<8).map { selection.unsigned($0) }
        let (key, value) = (selection.bytes(9), selection.bytes(10))
        guard selection.unsigned(8) == UInt64(seal.checksum(numbers, [key, value])),
            1...BlockBounds.seqnoMax ~= numbers[1], 1...255 ~= key.count, numbers[7] < 8,
            let level = UInt8(exactly: numbers[2]).flatMap(DurabilityLevel.init(rawValue:)),
            let flags = UInt32(exactly: numbers[5]), let expiry = UInt32(exactly: numbers[6])
        else { return nil }
        let meta = DocumentMeta(
            seqno: Seqno(numbers[1]),
            cas: CAS(numbers[3]),
            revision: numbers[4],
            flags: flags,
            expiry: expiry,
            datatype: Datatype(rawValue: UInt8(numbers[7])),
            isDeleted: numbers[8] != 0
        )
        return StoredPrepare(meta: meta, level: level, key: key.bytes, value: value.bytes)
    }
}

extension LaneStore {
    /// The prepares of a vBucket that were outstanding when it was last committed, by seqno.
    ///
    /// The prepares are read on a read connection: a read error says nothing about commits and does
    /// not count towards closing the lane.
    ///
    /// - Throws: `StorageError`: `.damaged` if a prepare is invalid, any code if the lane is closed
    ///   or its file fails.
    package func prepares(of vBucket: VBucketID) throws(StorageError) -> [StoredPrepare] {
        precondition(owns(vBucket), "\(vBucket) is not in lane \(number)")
        try checkOpen()
        guard exists else { return [] }
        return try readers.scan { (reader) throws(StorageError) in
            try PrepareSelection(reader.connection, seal: identity.seal).read(vBucket.number)
        }
    }
}
