internal import Seams
internal import Vocabulary

/// The open `control.sqlite`: its prepared statements and the table changes of a commit.
final class ControlFile {
    /// The WAL is copied into the file once it exceeds this many pages: 2 MiB.
    private static let walPagesMax = 512
    /// The WAL is preallocated to this size so that it does not grow: one frame per page until the
    /// WAL is copied, and 128 frames for the commit that exceeds the limit.
    private static let walBytes = UInt64(32 + (walPagesMax + 128) * (24 + 4_096))
    /// Free pages kept for the next entries; the others are returned to the file system.
    private static let freePagesMax: Int64 = 256

    let connection: SQLiteConnection
    var path: String { connection.path }
    private let insertEntry: Statement
    private let cutLog: Statement
    private let setState: Statement
    private let setBase: Statement
    private let getState: Statement
    /// The maximum number of pages; 0 for no limit.
    private var pagesMax = 0

    init(path: String, disk: any Disk) throws(StorageError) {
        // As for lanes (`LaneStore.secureLog`): everything read from the WAL is on disk afterwards.
        try storage { () throws(DiskError) in try disk.rewriteDurably(path + "-wal") }
        connection = try SQLiteConnection(path: path, mode: .create, vfs: disk.vfsName)
        try ControlSchema.prepare(connection)
        // After a crash or an error, frames in the WAL may be readable and still not on disk: the
        // kernel reports a failed fsync once, and the next fsync succeeds. Copying and truncating
        // the WAL makes them durable before any decision depends on them. After a clean stop there
        // is nothing to copy.
        try connection.checkpoint(.truncate)
        // Every node waits for a decision to be on disk, so its sync must not wait for the file
        // system's journal. A full disk is ignored here: it may have room for the next decision.
        do throws(DiskError) {
            try disk.preallocate(path + "-wal", to: Self.walBytes)
        } catch {
            guard error.code == .full else { throw StorageError(error) }
        }
        insertEntry = try connection.prepare("INSERT INTO log VALUES(?, ?, ?, ?, ?)")
        cutLog = try connection.prepare("DELETE FROM log WHERE idx >= ?")
        let columns = "(id, term, vote, commit_index, base_term, base_index, crc)"
        setState = try connection.prepare(
            "REPLACE INTO hard_state\(columns) VALUES(1, ?, ?, ?, ?, ?, ?)"
        )
        setBase = try connection.prepare("DELETE FROM log WHERE idx <= ?")
        getState = try connection.prepare(
            "SELECT term, vote, commit_index, base_term, base_index, crc FROM hard_state"
        )
    }

    func limit(pages: Int) throws(StorageError) {
        pagesMax = pages
        // SQLite's own maximum.
        let bound = pages > 0 ? pages : 0xffff_fffe
        _ = try connection.integer("PRAGMA max_page_count = \(bound)")
    }

    /// Refuses the commit at the page limit, as on a full disk: even changes that fit into free
    /// pages need WAL space.
    private func checkPageLimit() throws(StorageError) {
        guard pagesMax > 0 else { return }
        guard try connection.integer("PRAGMA page_count") ?? 0 >= pagesMax else { return }
        throw StorageError(.full, "cannot commit to \(path): the disk is full")
    }

    // MARK: Committing

    func commit(_ changes: [ControlChange]) throws(StorageError) {
        try connection.transaction { () throws(StorageError) in
            var freed = false
            for change in changes {
                try apply(change)
                switch change {
                case .prune, .snapshot, .installStaged, .dropStaged, .stage: freed = true
                default: break
                }
            }
            if freed { try releaseFreePages() }
            try checkPageLimit()
        }
        if connection.walPages > Self.walPagesMax { try connection.checkpoint(.passive) }
    }

    func begin(
        with snapshot: ControlSnapshot,
        _ hardState: ControlHardState,
        _ facts: [(name: String, bytes: [UInt8]?)],
        keepsSeals: Bool
    ) throws(StorageError) {
        try connection.transaction { () throws(StorageError) in
            for table in ["hard_state", "log", "snapshot", "chunk"] {
                try connection.execute("DELETE FROM \(table)")
            }
            if !keepsSeals { try connection.execute("DELETE FROM seal") }
            try store(hardState, base: snapshot.mark.position)
            try replaceSnapshot(snapshot)
            for fact in facts { try apply(.fact(name: fact.name, fact.bytes)) }
            try releaseFreePages()
            try checkPageLimit()
        }
    }

    private func apply(_ change: ControlChange) throws(StorageError) {
        switch change {
        case .hardState(let state): try store(state, base: try stateAndBase().base)
        case .append(let entries): try append(entries)
        case .prune(let base): try prune(base)
        case .snapshot(let snapshot): try replaceSnapshot(snapshot)
        case .stage(let mark):
            try drop(isCurrent: false)
            try insert(mark, isCurrent: false)
        case .stageChunk(let number, let bytes):
            guard let staged = try snapshotID(isCurrent: false) else { return }
            try insertChunk(staged, number, bytes: bytes, isLast: false)
        case .installStaged: try installStaged()
        case .dropStaged: try drop(isCurrent: false)
        case .seals(let bucket, let seals): try store(seals, of: bucket)
        case .dropSeals(let bucket):
            try connection.prepare("DELETE FROM seal WHERE bucket_uuid = ?").run(bucket)
        case .fact(let name, let bytes): try store(fact: name, bytes)
        }
    }

    private func append(_ entries: [ControlEntry]) throws(StorageError) {
        guard let first = entries.first else { return }
        try cutLog.run(first.position.index)
        for entry in entries {
            try insertEntry.run(
                entry.position.index,
                entry.position.term,
                entry.kind,
                entry.bytes,
                entry.checksum
            )
        }
    }

    private func prune(_ base: ControlPosition) throws(StorageError) {
        let (state, before) = try stateAndBase()
        guard base.index > before.index else { return }
        try setBase.run(base.index)
        try store(state, base: base)
    }

    // MARK: Hard state

    private func store(
        _ state: ControlHardState,
        base: ControlPosition
    ) throws(StorageError) {
        try setState.run(
            state.term,
            state.vote,
            state.commit,
            base.term,
            base.index,
            state.checksum(base: base)
        )
    }

    /// The stored hard state, and the position before the log's first entry.
    func stateAndBase() throws(StorageError) -> (state: ControlHardState, base: ControlPosition) {
        guard try getState.step() else {
            throw ControlSchema.damage(path, "its row with term and vote is missing")
        }
        defer { getState.reset() }
        let state = ControlHardState(
            term: getState.unsigned(0),
            vote: UInt16(truncatingIfNeeded: getState.integer(1)),
            commit: getState.unsigned(2)
        )
        let base = ControlPosition(term: getState.unsigned(3), index: getState.unsigned(4))
        guard getState.integer(5) == Int64(state.checksum(base: base)) else {
            throw ControlSchema.damage(path, "its row with term and vote has a wrong checksum")
        }
        return (state, base)
    }

    // MARK: Snapshots

    func snapshotID(isCurrent: Bool) throws(StorageError) -> Int64? {
        try connection.integer("SELECT id FROM snapshot WHERE is_current = \(isCurrent ? 1 : 0)")
    }

    private func replaceSnapshot(_ snapshot: ControlSnapshot) throws(StorageError) {
        try drop(isCurrent: true)
        try insert(snapshot.mark, isCurrent: true)
        guard let id = try snapshotID(isCurrent: true) else {
            preconditionFailure("the snapshot was inserted")
        }
        var number: UInt64 = 0
        var rest = snapshot.state[...]
        repeat {
            let chunk = Array(rest.prefix(ControlSchema.chunkBytes))
            rest = rest.dropFirst(chunk.count)
            try insertChunk(id, number, bytes: chunk, isLast: rest.isEmpty)
            number += 1
        } while !rest.isEmpty
    }

    private func installStaged() throws(StorageError) {
        guard let staged = try snapshotID(isCurrent: false), let mark = try mark(staged) else {
            preconditionFailure("a snapshot is installed only after it was staged completely")
        }
        try drop(isCurrent: true)
        try connection.execute("UPDATE snapshot SET is_current = 1 WHERE id = \(staged)")
        let last =
            try connection.integer("SELECT max(number) FROM chunk WHERE snapshot = \(staged)")
        guard let last, let bytes = try chunk(staged, UInt64(last))?.bytes else {
            preconditionFailure("a snapshot has at least one chunk")
        }
        try connection.execute(
            "DELETE FROM chunk WHERE snapshot = \(staged) AND number = \(last)"
        )
        try insertChunk(staged, UInt64(last), bytes: bytes, isLast: true)
        try connection.execute("DELETE FROM log")
        try store(try stateAndBase().state, base: mark.position)
    }

    private func drop(isCurrent: Bool) throws(StorageError) {
        let chosen = "WHERE is_current = \(isCurrent ? 1 : 0)"
        try connection.execute(
            """
            DELETE FROM chunk WHERE snapshot IN (SELECT id FROM snapshot \(chosen));
            DELETE FROM snapshot \(chosen);
            """
        )
    }

    private func insert(
        _ mark: ControlSnapshotMark,
        isCurrent: Bool
    ) throws(StorageError) {
        let insert = try connection.prepare(
            "INSERT INTO snapshot(is_current, term, idx, configuration, crc) VALUES(?, ?, ?, ?, ?)"
        )
        try insert.run(
            isCurrent ? 1 : 0,
            mark.position.term,
            mark.position.index,
            mark.configuration,
            mark.checksum
        )
    }

    private func insertChunk(
        _ snapshot: Int64,
        _ number: UInt64,
        bytes: [UInt8],
        isLast: Bool
    ) throws(StorageError) {
        let insert = try connection.prepare(
            "REPLACE INTO chunk(snapshot, number, is_last, bytes, crc) VALUES(?, ?, ?, ?, ?)"
        )
        try insert.run(
            snapshot,
            number,
            isLast ? 1 : 0,
            bytes,
            Self.checksum(number, isLast, bytes: bytes)
        )
    }

    static func checksum(_ number: UInt64, _ isLast: Bool, bytes: [UInt8]) -> UInt32 {
        RowChecksum("chunk").with(number).with(isLast ? 1 : 0).over(bytes)
    }

    // MARK: Seals and facts

    private func store(_ seals: [ControlSeal], of bucket: String) throws(StorageError) {
        let insert = try connection.prepare("REPLACE INTO seal VALUES(?, ?, ?, ?, ?)")
        for seal in seals {
            try insert.run(
                bucket,
                seal.vBucket.number,
                seal.fence,
                seal.term,
                seal.checksum(bucket)
            )
        }
    }

    private func store(fact name: String, _ bytes: [UInt8]?) throws(StorageError) {
        guard let bytes else {
            return try connection.prepare("DELETE FROM fact WHERE name = ?").run(name)
        }
        let insert = try connection.prepare("REPLACE INTO fact VALUES(?, ?, ?)")
        try insert.run(name, bytes, RowChecksum("fact").with(text: name).over(bytes))
    }

    /// Returns free pages beyond a reserve to the file system, so that the file shrinks after a
    /// peak.
    private func releaseFreePages() throws(StorageError) {
        let free = try connection.integer("PRAGMA freelist_count") ?? 0
        guard free > Self.freePagesMax else { return }
        try connection.execute("PRAGMA incremental_vacuum(\(free - Self.freePagesMax))")
    }
}
