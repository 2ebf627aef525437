internal import Bytes
internal import Vocabulary

/// Reads the tables back and verifies the checksum of every row.
extension ControlFile {
    func load() throws(StorageError) -> ControlContents? {
        guard let id = try snapshotID(isCurrent: true) else {
            let terms = try connection.integer("SELECT count(*) FROM hard_state")
            guard terms == 0 else { throw ControlSchema.damage(path, "its snapshot is missing") }
            return nil
        }
        guard let mark = try mark(id) else { return nil }
        let (state, base) = try stateAndBase()
        let entries = try entries(from: base)
        let last = entries.last?.position ?? base
        guard base.index <= mark.position.index, last.index >= mark.position.index else {
            throw ControlSchema.damage(
                path,
                "its log reaches from \(base.index) to \(last.index), its snapshot to "
                    + "\(mark.position.index)"
            )
        }
        return ControlContents(hardState: state, snapshot: mark, base: base, entries: entries)
    }

    /// The error of a damaged row; ends the reading of its statement.
    private func damage(_ what: String, _ row: Statement) -> StorageError {
        row.reset()
        return ControlSchema.damage(path, what)
    }

    private func entries(from base: ControlPosition) throws(StorageError) -> [ControlEntry] {
        let select = try connection.prepare(
            "SELECT idx, term, kind, bytes, crc FROM log ORDER BY idx"
        )
        var entries: [ControlEntry] = []
        var before = base
        while try select.step() {
            let entry = ControlEntry(
                position: ControlPosition(term: select.unsigned(1), index: select.unsigned(0)),
                kind: UInt8(truncatingIfNeeded: select.integer(2)),
                bytes: select.bytes(3).bytes
            )
            let index = entry.position.index
            guard select.integer(4) == Int64(entry.checksum) else {
                throw damage("entry \(index) of its log does not match its checksum", select)
            }
            guard index == before.index + 1, entry.position.term >= before.term else {
                throw damage("entry \(before.index + 1) of its log is missing", select)
            }
            before = entry.position
            entries.append(entry)
        }
        return entries
    }

    func mark(_ id: Int64) throws(StorageError) -> ControlSnapshotMark? {
        let select = try connection.prepare(
            "SELECT term, idx, configuration, crc FROM snapshot WHERE id = ?"
        )
        select.bind(id)
        guard try select.step() else { return nil }
        defer { select.reset() }
        let mark = ControlSnapshotMark(
            position: ControlPosition(term: select.unsigned(0), index: select.unsigned(1)),
            configuration: select.bytes(2).bytes
        )
        guard select.integer(3) == Int64(mark.checksum) else {
            throw ControlSchema.damage(path, "the head of its snapshot has a wrong checksum")
        }
        return mark
    }

    func snapshot() throws(StorageError) -> ControlSnapshot? {
        guard let id = try snapshotID(isCurrent: true), let mark = try mark(id) else { return nil }
        var state: [UInt8] = []
        var number: UInt64 = 0
        while true {
            guard let chunk = try chunk(id, number) else {
                throw ControlSchema.damage(path, "part \(number) of its snapshot is missing")
            }
            state += chunk.bytes
            if chunk.isLast { return ControlSnapshot(mark: mark, state: state) }
            number += 1
        }
    }

    func chunk(
        _ snapshot: Int64,
        _ number: UInt64
    ) throws(StorageError) -> (bytes: [UInt8], isLast: Bool)? {
        let select = try connection.prepare(
            "SELECT is_last, bytes, crc FROM chunk WHERE snapshot = ? AND number = ?"
        )
        select.bind(snapshot, number)
        guard try select.step() else { return nil }
        defer { select.reset() }
        let isLast = select.integer(0) == 1
        let bytes = select.bytes(1).bytes
        guard select.integer(2) == Int64(Self.checksum(number, isLast, bytes: bytes)) else {
            throw damage("part \(number) of its snapshot does not match its checksum", select)
        }
        return (bytes, isLast)
    }

    func seals(_ bucket: String) throws(StorageError) -> [ControlSeal] {
        let select = try connection.prepare(
            "SELECT vb, fence, term, crc FROM seal WHERE bucket_uuid = ? ORDER BY vb"
        )
        select.bind(bucket)
        var seals: [ControlSeal] = []
        while try select.step() {
            let seal = ControlSeal(
                vBucket: VBucketID(UInt16(truncatingIfNeeded: select.integer(0))),
                fence: select.unsigned(1),
                term: select.unsigned(2)
            )
            guard select.integer(3) == Int64(seal.checksum(bucket)) else {
                let number = seal.vBucket.number
                throw damage("the seal of vBucket \(number) does not match its checksum", select)
            }
            seals.append(seal)
        }
        return seals
    }

    func fact(_ name: String) throws(StorageError) -> [UInt8]? {
        try Self.fact(name, connection)
    }

    static func fact(_ name: String, _ connection: SQLiteConnection) throws(StorageError)
        -> [UInt8]?
    {
        let select = try connection.prepare("SELECT bytes, crc FROM fact WHERE name = ?")
        select.bind(name)
        guard try select.step() else { return nil }
        defer { select.reset() }
        let bytes = select.bytes(0).bytes
        let checksum = RowChecksum("fact").with(text: name).over(bytes)
        guard select.integer(1) == Int64(checksum) else {
            let what = "its value \"\(name)\" does not match its checksum"
            throw ControlSchema.damage(connection.path, what)
        }
        return bytes
    }
}

extension ControlEntry {
    var checksum: UInt32 {
        RowChecksum("log").with(position.term).with(position.index).with(UInt64(kind)).over(bytes)
    }
}

extension ControlHardState {
    func checksum(base: ControlPosition) -> UInt32 {
        RowChecksum("hard_state").with(term).with(UInt64(vote)).with(commit)
            .with(base.term).with(base.index).over()
    }
}

extension ControlSnapshotMark {
    var checksum: UInt32 {
        RowChecksum("snapshot").with(position.term).with(position.index).over(configuration)
    }
}

extension ControlSeal {
    func checksum(_ bucket: String) -> UInt32 {
        RowChecksum("seal").with(text: bucket).with(UInt64(vBucket.number)).with(fence).with(term)
            .over()
    }
}
