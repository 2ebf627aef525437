package import Bytes
package import Seams
package import Vocabulary

/// Reads the documents of a data directory, whether or not a server has it open.
///
/// - Opens files read-only and does not lock the data directory. Each lane is read in one read
///   transaction, so its output is a consistent snapshot; meanwhile a server cannot truncate that
///   lane's WAL.
/// - Holds the keys of one vBucket in memory at a time.
package struct Dump {
    private let disk: any Disk

    package init(disk: any Disk) {
        self.disk = disk
    }

    /// The paths of the bucket directories in a data directory, without deleted buckets.
    ///
    /// - Throws: `StorageError` if the directory or a `bucket.divan` cannot be read.
    package func buckets(in dataDirectory: String) throws(StorageError) -> [String] {
        let names = try storage { () throws(DiskError) in try disk.list(dataDirectory) }
        var found: [String] = []
        for name in names where !name.contains(BucketStore.deletedMark) {
            let directory = "\(dataDirectory)/\(name)"
            if try BucketFile.read(disk, directory) != nil { found.append(directory) }
        }
        return found
    }

    /// Visits the newest version of every document of a bucket, lane by lane, within a lane by
    /// vBucket and seqno.
    ///
    /// - Parameters:
    ///   - directory: The bucket's own directory.
    ///   - tombstones: Whether tombstones are visited too.
    ///   - damage: Called for each unreadable block; the other blocks are still visited.
    ///   - visit: Called per document. Returning false ends the dump.
    /// - Throws: `StorageError`: `.missing` if the directory holds no bucket; any code if a whole
    ///   file is unreadable.
    package func documents(
        of directory: String,
        tombstones: Bool = false,
        damage: (StorageError) -> Void,
        visit: (VBucketID, DocumentMeta, _ key: ByteView, _ value: ByteView) -> Bool
    ) throws(StorageError) {
        guard let file = try BucketFile.read(disk, directory) else {
            throw StorageError(.missing, "\(directory) holds no bucket")
        }
        for number in file.files.sorted() {
            let identity = LaneIdentity(name: "", file: file, lane: number)
            let path = file.path(of: number, in: directory)
            let connection = try SQLiteConnection(path: path, mode: .read, vfs: disk.vfsName)
            try connection.execute("BEGIN")
            _ = try connection.checkIdentity(identity)
            let contents = try LaneContents(connection, identity)
            let lane = try DumpedLane(
                connection,
                identity,
                directory: contents.directory,
                tombstones: tombstones
            )
            for block in contents.lost { damage(lane.lost(block)) }
            guard try lane.visit(damage, visit) else { return }
        }
    }
}

extension Dump {
    /// The number of a bucket's outstanding prepares, which `documents` does not visit.
    ///
    /// - Throws: `StorageError`: `.missing` if the directory holds no bucket; any code if a file is
    ///   unreadable.
    package func prepareCount(of directory: String) throws(StorageError) -> Int {
        guard let file = try BucketFile.read(disk, directory) else {
            throw StorageError(.missing, "\(directory) holds no bucket")
        }
        var count = 0
        for number in file.files {
            let path = file.path(of: number, in: directory)
            let connection = try SQLiteConnection(path: path, mode: .read, vfs: disk.vfsName)
            count += Int(try connection.integer("SELECT count(*) FROM prepares") ?? 0)
        }
        return count
    }
}

/// One lane within its read transaction.
private struct DumpedLane {
    let identity: LaneIdentity
    let directory: LaneDirectory
    let reader: LaneReader
    let tombstones: Bool

    init(
        _ connection: SQLiteConnection,
        _ identity: LaneIdentity,
        directory: LaneDirectory,
        tombstones: Bool
    ) throws(StorageError) {
        self.identity = identity
        self.directory = directory
        self.tombstones = tombstones
        reader = try LaneReader(connection, identity)
    }

    func lost(_ block: UInt64) -> StorageError { reader.damaged(block, .runs) }

    /// Visits the lane's documents; false if `visit` returned false.
    func visit(
        _ damage: (StorageError) -> Void,
        _ visit: (VBucketID, DocumentMeta, ByteView, ByteView) -> Bool
    ) throws(StorageError) -> Bool {
        for vBucket in UInt16(0)..<UInt16(clamping: identity.vBuckets)
        where identity.owns(vBucket) {
            let newest = try newest(of: vBucket)
            let isCompleted = try forEachRun(of: vBucket, damage) { (block) throws(StorageError) in
                guard try reader.openBody(block), reader.body.runs == reader.cursor.runs else {
                    throw reader.damaged(block, .body)
                }
                while reader.cursor.next() {
                    let meta = reader.cursor.meta
                    guard newest[reader.cursor.key.bytes] == meta.seqno,
                        tombstones || !meta.isDeleted
                    else { continue }
                    let value = reader.body.value(reader.cursor.place)
                    guard visit(VBucketID(vBucket), meta, reader.cursor.key, value) else {
                        return false
                    }
                }
                return true
            }
            guard isCompleted else { return false }
        }
        return true
    }

    private func newest(of vBucket: UInt16) throws(StorageError) -> [[UInt8]: Seqno] {
        var newest: [[UInt8]: Seqno] = [:]
        // Runs are in seqno order, so the last version of a key wins. The second pass reports
        // damage.
        func recordVersions(_ block: UInt64) -> Bool {
            while reader.cursor.next() { newest[reader.cursor.key.bytes] = reader.cursor.seqno }
            return true
        }
        _ = try forEachRun(of: vBucket, { _ in }, recordVersions)
        return newest
    }

    private func forEachRun(
        of vBucket: UInt16,
        _ damage: (StorageError) -> Void,
        _ body: (_ block: UInt64) throws(StorageError) -> Bool
    ) throws(StorageError) -> Bool {
        var last: UInt64 = 0
        while let (run, block) = directory.run(after: last, in: vBucket) {
            do throws(StorageError) {
                guard try reader.openMeta(block), reader.cursor.select(vBucket, after: last) else {
                    throw reader.damaged(block, .meta)
                }
                guard try body(block) else { return false }
            } catch {
                guard error.damage != nil else { throw error }
                damage(error)
            }
            last = run.last
        }
        return true
    }
}
