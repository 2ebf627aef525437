package import Bytes
package import Vocabulary

/// What a fetch came to.
package enum FetchOutcome: Hashable, Sendable {
    case found
    /// The store has no such version: it was never committed, or is gone since.
    case missing
}

extension LaneStore {
    /// Appends the value of one version to `writer`.
    package func fetchValue(
        _ vBucket: VBucketID,
        _ seqno: Seqno,
        into writer: ByteWriter
    ) throws(StorageError) -> FetchOutcome {
        try fetch(vBucket, seqno) { (reader, block) throws(StorageError) in
            try reader.readValue(block, vBucket.number, seqno.value, into: writer)
        }
    }

    /// Visits metadata, key and value of one version, for documents that left memory whole.
    package func fetchDocument(
        _ vBucket: VBucketID,
        _ seqno: Seqno,
        visit: (DocumentMeta, _ key: ByteView, _ value: ByteView) -> Void
    ) throws(StorageError) -> FetchOutcome {
        let value = ByteWriter(capacity: 1 << 10)
        return try fetch(vBucket, seqno) { (reader, block) throws(StorageError) in
            guard try reader.openMeta(block), reader.cursor.select(vBucket.number, seqno.value)
            else { return false }
            guard try reader.readValue(block, vBucket.number, seqno.value, into: value) else {
                return false
            }
            visit(reader.cursor.meta, reader.cursor.key, value.view)
            return true
        }
    }

    /// Visits metadata and key of one version, without its value.
    package func fetchMetadata(
        _ vBucket: VBucketID,
        _ seqno: Seqno,
        visit: (DocumentMeta, _ key: ByteView, _ valueLength: Int) -> Void
    ) throws(StorageError) -> FetchOutcome {
        try fetch(vBucket, seqno) { (reader, block) throws(StorageError) in
            guard try reader.openMeta(block), reader.cursor.select(vBucket.number, seqno.value)
            else { return false }
            visit(reader.cursor.meta, reader.cursor.key, reader.cursor.valueLength)
            return true
        }
    }

    /// Looks a version up and reads it; where compaction took the block away between the two,
    /// looks again.
    private func fetch(
        _ vBucket: VBucketID,
        _ seqno: Seqno,
        _ body: (LaneReader, UInt64) throws(StorageError) -> Bool
    ) throws(StorageError) -> FetchOutcome {
        precondition(owns(vBucket), "\(vBucket) is not in lane \(number)")
        try checkOpen()
        var before: UInt64 = 0
        for attempt in 0..<4 {
            let found = directory.withLock { $0.block(of: seqno.value, in: vBucket.number) }
            guard let block = found else { return .missing }
            // The block is there, but the version is not in it.
            if block == before, attempt == 3 { return .missing }
            let isRead = try readers.fetch { (reader) throws(StorageError) in
                try body(reader, block)
            }
            if isRead { return .found }
            // Committed, but not yet in the directory: wait until whoever does this is through.
            if block == before { writer.withLock { _ in } }
            before = block
        }
        return .missing
    }
}
