internal import Bytes

/// The read connections of a lane: two for single documents, one for scans, opened on demand.
final class LaneReaderPool: Sendable {
    private struct Slot {
        var reader: LaneReader?
        var wasUsed = false
    }

    private let path: String
    private let identity: LaneIdentity
    private let vfs: String?
    private let unreadable: Guarded<Set<UInt64>>
    private let fetching = [Guarded(Slot()), Guarded(Slot())]
    private let scanning = Guarded(Slot())
    private let turn = Guarded(0)

    init(path: String, identity: LaneIdentity, vfs: String?, unreadable: Guarded<Set<UInt64>>) {
        self.unreadable = unreadable
        self.path = path
        self.identity = identity
        self.vfs = vfs
    }

    /// Runs a short read of single documents, which does not wait for a scan.
    func fetch<Result>(
        _ body: (LaneReader) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        let next = turn.withLock { turn in
            turn = (turn + 1) % fetching.count
            return turn
        }
        return try use(fetching[next], body)
    }

    /// Runs a read of many blocks.
    func scan<Result>(
        _ body: (LaneReader) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try use(scanning, body)
    }

    private func use<Result>(
        _ slot: Guarded<Slot>,
        _ body: (LaneReader) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try slot.withLock { (slot) throws(StorageError) in
            slot.wasUsed = true
            do throws(StorageError) {
                if let reader = slot.reader { return try body(reader) }
                let reader = try open()
                slot.reader = reader
                return try body(reader)
            } catch {
                // A connection that failed is not used again, unless only a block is damaged.
                if let damage = error.damage {
                    unreadable.withLock { _ = $0.insert(damage.block) }
                } else {
                    slot.reader = nil
                }
                throw error
            }
        }
    }

    private func open() throws(StorageError) -> LaneReader {
        let connection = try SQLiteConnection(path: path, mode: .read, vfs: vfs)
        try connection.execute(Schema.pragmas)
        try connection.execute("PRAGMA cache_size = -256")
        return try LaneReader(connection, identity)
    }

    /// Closes the connections that were not used since the last call; skips those in use.
    func closeIdle() {
        for slot in fetching + [scanning] {
            slot.withLockIfFree { slot in
                if !slot.wasUsed { slot.reader = nil }
                slot.wasUsed = false
            }
        }
    }

    func closeAll() {
        for slot in fetching + [scanning] {
            slot.withLock { $0 = Slot() }
        }
    }
}
