package import Bytes
package import Vocabulary

extension LaneStore {
    /// Appends the value of one version to `writer`.
    ///
    /// - Throws: `StorageError`: `.damaged` if its block is unreadable, any code if the lane is
    ///   closed or its file fails.
    /// - Returns: False if the lane has no such version: it was never committed, or was removed
    ///   since.
    package func fetchValue(
        _ vBucket: VBucketID,
        _ seqno: Seqno,
        into writer: ByteWriter
    ) throws(StorageError) -> Bool {
        try fetch(vBucket, seqno) { (reader, block) throws(StorageError) in
            try reader.readValue(block, vBucket.number, at: seqno.value, into: writer)
        }
    }

    /// Visits metadata, key and value of one version, for documents whose key was ejected too.
    ///
    /// - Throws: `StorageError`, as `fetchValue`.
    /// - Returns: False if the lane has no such version; `visit` was not called then.
    package func fetchDocument(
        _ vBucket: VBucketID,
        _ seqno: Seqno,
        visit: (DocumentMeta, _ key: ByteView, _ value: ByteView) -> Void
    ) throws(StorageError) -> Bool {
        let value = ByteWriter(capacity: 1 << 10)
        return try fetch(vBucket, seqno) { (reader, block) throws(StorageError) in
            guard try reader.openMeta(block), reader.cursor.select(vBucket.number, seqno.value)
            else { return false }
            guard try reader.readValue(block, vBucket.number, at: seqno.value, into: value) else {
                return false
            }
            visit(reader.cursor.meta, reader.cursor.key, value.view)
            return true
        }
    }

    /// Finds a version's block in the directory and reads it; retries if compaction removed the
    /// block between the two steps.
    private func fetch(
        _ vBucket: VBucketID,
        _ seqno: Seqno,
        body: (LaneReader, UInt64) throws(StorageError) -> Bool
    ) throws(StorageError) -> Bool {
        precondition(owns(vBucket), "\(vBucket) is not in lane \(number)")
        try checkOpen()
        var before: UInt64 = 0
        for attempt in 0..<4 {
            let found = directory.withLock { $0.block(of: seqno.value, in: vBucket.number) }
            guard let block = found else { return false }
            // The directory still names the block, but the version was not found in it.
            if block == before, attempt == 3 { return false }
            let isRead = try readers.fetch { (reader) throws(StorageError) in
                try body(reader, block)
            }
            if isRead { return true }
            // The rewrite is committed, but the directory is not updated yet: wait for the writer.
            if block == before { writer.withLock { _ in } }
            before = block
        }
        return false
    }
}
