internal import Bytes

/// Consecutive documents of one vBucket within a block.
struct BlockRun: Hashable {
    var vBucket: UInt16
    var first: UInt64
    /// The last seqno minus the first.
    var span: UInt64
    var count: Int

    var last: UInt64 { first + span }
}

/// The two encodings of a block's runs.
///
/// `block.runs` stores only each run's span, for the directory. `meta` and `body` store every
/// seqno, so that each can be read without the other.
enum RunTable {
    static func appendOutline(_ runs: [BlockRun], to writer: ByteWriter) {
        LEB128.append(UInt64(runs.count), to: writer)
        for run in runs {
            LEB128.append(UInt64(run.vBucket), to: writer)
            LEB128.append(run.first, to: writer)
            LEB128.append(UInt64(run.count), to: writer)
            LEB128.append(run.span, to: writer)
        }
    }

    /// Decodes an outline into `runs`; false if the bytes are invalid.
    static func readOutline(_ bytes: ByteView, into runs: inout [BlockRun]) -> Bool {
        var reader = ByteReader(bytes)
        runs.removeAll(keepingCapacity: true)
        guard let count = reader.leb128(), 1...UInt64(BlockBounds.documentsMax) ~= count else {
            return false
        }
        var documents = 0
        for _ in 0..<count {
            guard var run = readHead(&reader), let span = reader.leb128() else { return false }
            run.span = span
            documents += run.count
            guard isPossible(run), documents <= BlockBounds.documentsMax else { return false }
            runs.append(run)
        }
        return reader.isAtEnd
    }

    /// Reads runs and seqnos from the start of a meta or body; nil if the bytes are invalid.
    ///
    /// - Parameters:
    ///   - reader: Is advanced past the table.
    ///   - runs: Receives the runs, in order.
    ///   - seqnos: Receives the seqno of each document; has capacity for
    ///     `BlockBounds.documentsMax`.
    /// - Returns: The number of documents.
    static func readSeqnos(
        _ reader: inout ByteReader,
        into runs: inout [BlockRun],
        _ seqnos: UnsafeMutablePointer<UInt64>
    ) -> Int? {
        runs.removeAll(keepingCapacity: true)
        guard let count = reader.leb128(), 1...UInt64(BlockBounds.documentsMax) ~= count else {
            return nil
        }
        var documents = 0
        for _ in 0..<count {
            guard var run = readHead(&reader), documents + run.count <= BlockBounds.documentsMax
            else { return nil }
            var seqno = run.first
            seqnos[documents] = seqno
            for index in 1..<max(run.count, 1) {
                guard let gap = reader.leb128(), gap < BlockBounds.spanMax else { return nil }
                seqno += gap + 1
                seqnos[documents + index] = seqno
            }
            run.span = seqno - run.first
            guard isPossible(run) else { return nil }
            documents += run.count
            runs.append(run)
        }
        return documents
    }

    private static func readHead(_ reader: inout ByteReader) -> BlockRun? {
        guard let vBucket = reader.leb128(), vBucket <= UInt16.max,
            let first = reader.leb128(), 1...BlockBounds.seqnoMax ~= first,
            let count = reader.leb128(), 1...UInt64(BlockBounds.documentsMax) ~= count
        else { return nil }
        return BlockRun(vBucket: UInt16(vBucket), first: first, span: 0, count: Int(count))
    }

    private static func isPossible(_ run: BlockRun) -> Bool {
        run.span <= BlockBounds.spanMax && run.span >= UInt64(run.count - 1)
            && run.first + run.span <= BlockBounds.seqnoMax
    }
}
