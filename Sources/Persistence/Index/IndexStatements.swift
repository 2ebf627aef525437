/// The SQL of an index file.
enum IndexSQL: Int, CaseIterable {
    case begin, end
    case selectMeta, writeMeta, deleteMeta, selectHead, writeHead
    case selectNode, writeNode, deleteNode, deleteNodesFrom, deleteNodesBelow
    case selectValue, writeValue, deleteValue, deleteValuesFrom, deleteValuesBelow
    case selectReduction, writeReduction, deleteReduction, deleteReductions, deleteReductionsBelow
    case selectSlots, insertSlot, deleteSlot
    case selectVBucket, selectVBuckets, writeVBucket, deleteVBucket
    case selectLog, insertLog, trimLog
    case selectFaults, insertFault, trimFaults
    case selectRuns, selectChunk, insertChunk, deleteChunks

    var text: String {
        switch self {
        case .begin: "BEGIN"
        case .end: "COMMIT"
        case .selectMeta: "SELECT value, crc FROM meta WHERE name = ?"
        case .writeMeta: "REPLACE INTO meta VALUES(?, ?, ?)"
        case .deleteMeta: "DELETE FROM meta WHERE name = ?"
        case .selectHead:
            """
            SELECT commit_no, state, main_root, main_height, main_version, main_rows,
              back_root, back_height, back_version, back_rows, next_node, next_value, crc
            FROM head
            """
        case .writeHead: "REPLACE INTO head VALUES(1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        case .selectNode: "SELECT body FROM node WHERE id = ?"
        case .writeNode: "REPLACE INTO node VALUES(?, ?)"
        case .deleteNode: "DELETE FROM node WHERE id = ?"
        case .deleteNodesFrom: IndexSQL.deleteSome("node", "id >= ? ORDER BY id DESC")
        case .deleteNodesBelow: IndexSQL.deleteSome("node", "id < ? ORDER BY id")
        case .selectValue: "SELECT crc, body FROM big WHERE id = ?"
        case .writeValue: "REPLACE INTO big VALUES(?, ?, ?)"
        case .deleteValue: "DELETE FROM big WHERE id = ?"
        case .deleteValuesFrom: IndexSQL.deleteSome("big", "id >= ? ORDER BY id DESC")
        case .deleteValuesBelow: IndexSQL.deleteSome("big", "id < ? ORDER BY id")
        case .selectReduction: "SELECT crc, body FROM red WHERE slot = ? AND node = ?"
        case .writeReduction: "REPLACE INTO red VALUES(?, ?, ?, ?)"
        case .deleteReduction: "DELETE FROM red WHERE slot = ? AND node = ?"
        case .deleteReductions:
            """
            DELETE FROM red WHERE slot = ?1
            AND node IN (SELECT node FROM red WHERE slot = ?1 ORDER BY node LIMIT ?2)
            """
        case .deleteReductionsBelow:
            """
            DELETE FROM red WHERE slot = ?1 AND node IN
              (SELECT node FROM red WHERE slot = ?1 AND node < ?2 ORDER BY node LIMIT ?3)
            """
        case .selectSlots: "SELECT id, signature, kind, source, crc FROM slot ORDER BY id"
        case .insertSlot: "INSERT INTO slot VALUES(?, ?, ?, ?, ?)"
        case .deleteSlot: "DELETE FROM slot WHERE id = ?"
        case .selectVBucket: "\(IndexSQL.vBucketColumns) WHERE vb = ?"
        case .selectVBuckets: "\(IndexSQL.vBucketColumns) ORDER BY vb"
        case .writeVBucket: "REPLACE INTO vb VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        case .deleteVBucket: "DELETE FROM vb WHERE vb = ?"
        case .selectLog: "SELECT commit_no, crc, body FROM log WHERE commit_no > ? ORDER BY 1"
        case .insertLog: "REPLACE INTO log VALUES(?, ?, ?)"
        case .trimLog: "DELETE FROM log WHERE commit_no <= ?"
        case .selectFaults: "SELECT n, view, id, line, text, crc FROM err ORDER BY n"
        case .insertFault: "INSERT INTO err VALUES(?, ?, ?, ?, ?, ?)"
        case .trimFaults: "DELETE FROM err WHERE n <= ?"
        case .selectRuns:
            "SELECT tree, id, count(*), max(chunk) FROM run GROUP BY tree, id ORDER BY tree, id"
        case .selectChunk: "SELECT crc, body FROM run WHERE tree = ? AND id = ? AND chunk = ?"
        case .insertChunk: "REPLACE INTO run VALUES(?, ?, ?, ?, ?)"
        case .deleteChunks:
            """
            DELETE FROM run WHERE tree = ?1 AND id = ?2 AND chunk IN
              (SELECT chunk FROM run WHERE tree = ?1 AND id = ?2 ORDER BY chunk DESC LIMIT ?3)
            """
        }
    }

    /// Removes the first rows of an order, as many as the last parameter.
    private static func deleteSome(_ table: String, _ order: String) -> String {
        "DELETE FROM \(table)\nWHERE id IN (SELECT id FROM \(table) WHERE \(order) LIMIT ?)"
    }

    private static let vBucketColumns = """
        SELECT vb, home, root, rows, uuid, seqno, snap_start, snap_end, log_floor, crc FROM vb
        """
}

/// The prepared statements of one connection, compiled at first use.
final class IndexStatements {
    private let connection: SQLiteConnection
    private var prepared = [Statement?](repeating: nil, count: IndexSQL.allCases.count)

    init(_ connection: SQLiteConnection) {
        self.connection = connection
    }

    subscript(sql: IndexSQL) -> Statement {
        get throws(StorageError) {
            if let statement = prepared[sql.rawValue] { return statement }
            let statement = try connection.prepare(sql.text)
            prepared[sql.rawValue] = statement
            return statement
        }
    }
}
