package import Bytes
internal import Indexing
internal import JSON
package import Persistence
package import Seams
internal import Vocabulary

/// The file of one index as operators and tests read it: as lines of JSON, and checked.
///
/// - Reads only, in one snapshot; a node may have the file open and commit meanwhile.
/// - Changes that the node has not committed are missing.
package struct IndexInspection {
    let path: String
    private let reader: IndexReader

    /// The index in the file at `path`.
    ///
    /// - Throws: `StorageError`: `.missing`, `.foreign` or `.otherFormat` if it is not an index file that
    ///   this release reads, `.damaged`, or a disk error.
    package init(path: String, disk: any Disk) throws(StorageError) {
        self.path = path
        reader = try IndexReader.inspect(path: path, vfs: disk.vfsName)
    }

    /// Runs `body` in a snapshot of the newest commit.
    func read<Result>(
        _ body: (IndexReads, IndexHead) throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        let head = try reader.begin()
        defer { reader.end() }
        return try reader.use { (reads) throws(StorageError) in try body(reads, head) }
    }

    // MARK: Lines

    /// Writes a line that describes the index, then a line for each row in the order of keys.
    ///
    /// - Parameter write: Called with each line, including its newline.
    /// - Throws: `StorageError` if a part of the file cannot be read; the lines before it are
    ///   written.
    package func lines(_ write: (ByteView) -> Void) throws(StorageError) {
        try read { (reads, head) throws(StorageError) in
            let line = ByteWriter(capacity: 4 << 10)
            try describe(reads, head, to: line)
            write(line.view)
            let nodes = StoredNodes(reads)
            let row = RowLine(line)
            try reading { () throws(IndexError) in
                let walk = RangeWalk(nodes.tree(head.main, .row))
                while let entry = try walk.next() {
                    let isWhole = try nodes.withValue(entry.value) { row.set(entry, $0) }
                    guard isWhole else {
                        let vBucket = entry.vBucket
                        throw .damaged(.none, "the key of a row of \(vBucket) is malformed")
                    }
                    write(line.view)
                }
            }
        }
    }

    private func describe(
        _ reads: IndexReads,
        _ head: IndexHead,
        to line: ByteWriter
    ) throws(StorageError) {
        let identity = try reads.identity()
        let vBuckets = try reads.vBuckets()
        // During a first build the vBuckets are in the runs.
        let hasRuns = try !reads.runs().isEmpty
        let isReady =
            (head.state == .ready || !hasRuns) && vBuckets.allSatisfy { $0.home != .filling }
        var json = JSONWriter(line)
        json.object { json in
            json.member("signature", identity.signature)
            json.member("bucketUUID", identity.bucketUUID)
            json.member("collator", identity.collator)
            json.member("map", identity.mapSource)
            json.member("state", isReady ? "ready" : "building")
            json.member("commit", head.commit.value)
            json.member("rows", head.main.rows)
            json.member("documents", head.back.rows)
            json.array("vBuckets") { json in
                for vBucket in vBuckets {
                    json.object { json in
                        json.member("vb", vBucket.id.number)
                        json.member("home", "\(vBucket.home)")
                        json.member("seqno", vBucket.seqno.value)
                        json.member("rows", vBucket.rows)
                    }
                }
            }
        }
        line.append(UInt8(ascii: "\n"))
    }
}

/// Writes one row after the other as a line.
private struct RowLine {
    let line: ByteWriter
    private let key = ByteWriter()
    private let id = ByteWriter()
    private let value = ByteWriter()

    init(_ line: ByteWriter) { self.line = line }

    /// Replaces the line by that of `entry`; false if the key of the entry is not that of a row.
    func set(_ entry: IndexEntry, _ json: ByteView) -> Bool {
        for part in [line, key, id, value] { part.removeAll(keepingAtMost: 1 << 20) }
        guard let parts = RowKey(entry.key), parts.appendID(to: id),
            Collation.appendJSON(ofSortKey: parts.sortKey, to: key) == parts.sortKey.count
        else { return false }
        // Line ends between the parts of a JSON text are white space; strings have none.
        for place in 0..<json.count {
            let byte = json[place]
            value.append(byte == 0x0a || byte == 0x0d ? UInt8(ascii: " ") : byte)
        }
        var writer = JSONWriter(line)
        writer.object { writer in
            writer.member("key", raw: key.view)
            writer.name("id")
            writer.value(utf8: id.view)
            writer.member("value", raw: value.view)
            writer.member("vb", entry.vBucket.number)
        }
        line.append(UInt8(ascii: "\n"))
        return true
    }
}
