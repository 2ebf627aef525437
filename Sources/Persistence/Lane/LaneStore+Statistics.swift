internal import Bytes
internal import Seams

/// Counts and sizes of a lane's file.
package struct LaneStatistics: Hashable, Sendable {
    /// Stored documents, dead ones included.
    package var documents = 0
    package var liveDocuments = 0
    package var mixedDocuments = 0
    package var blocks = 0
    /// Bytes of values in all blocks before compression.
    package var rawBytes: UInt64 = 0
    /// Bytes of the file, without its WAL.
    package var fileBytes: UInt64 = 0
    package var walBytes: UInt64 = 0
    package var unreadableBlocks = 0
    /// Consecutive failed attempts to copy the WAL into the file.
    package var checkpointFailures = 0

    /// The share of stored documents that are dead, 0 to 1.
    package var fragmentation: Double {
        documents == 0 ? 0 : Double(documents - liveDocuments) / Double(documents)
    }
}

extension LaneStore {
    /// The lane's current statistics.
    ///
    /// - Throws: `StorageError` if the size of a file cannot be read.
    package func statistics() throws(StorageError) -> LaneStatistics {
        var statistics = directory.withLock { directory in
            LaneStatistics(
                documents: directory.documents,
                liveDocuments: directory.live,
                mixedDocuments: directory.mixedDocuments,
                blocks: directory.blockCount,
                rawBytes: UInt64(directory.rawBytes)
            )
        }
        statistics.unreadableBlocks = unreadable.withLock { $0.count }
        statistics.checkpointFailures = state.withLock { $0.checkpointFailures }
        try storage { () throws(DiskError) in
            statistics.fileBytes = try disk.size(path)
            statistics.walBytes = try disk.size(path + "-wal")
        }
        return statistics
    }

    /// Runs SQLite's integrity check and decodes every block; slow.
    ///
    /// - Throws: `StorageError` if the file cannot be read at all.
    /// - Returns: One sentence per problem; empty if the file is intact.
    package func verify() throws(StorageError) -> [String] {
        guard exists else { return [] }
        var findings = try readers.scan { (reader) throws(StorageError) in
            try reader.connection.texts("PRAGMA integrity_check").filter { $0 != "ok" }
        }
        findings += try verify { (position) throws(StorageError) in
            try scanMetadata(from: position, blocksMax: .max) { _, cursor in
                while cursor.next() { _ = cursor.key }
                return true
            }
        }
        findings += try verify { (position) throws(StorageError) in
            try scanValues(from: position, blocksMax: .max) { _, _, _ in true }
        }
        return findings
    }

    private func verify(
        _ scan: (ScanPosition) throws(StorageError) -> ScanPosition?
    ) throws(StorageError) -> [String] {
        var findings: [String] = []
        var position: ScanPosition? = .start
        while let from = position {
            do throws(StorageError) {
                position = try scan(from)
            } catch {
                guard let damage = error.damage else { throw error }
                findings.append(error.description)
                position = ScanPosition(behind: damage)
            }
        }
        return findings
    }
}
