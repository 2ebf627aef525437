internal import Bytes
internal import Vocabulary

/// One chunk of a stored run.
package struct RunChunk: Hashable, Sendable {
    /// The tree that the records are for: rows or documents.
    package let kind: EntryKind
    package let run: UInt32
    /// From 0 on, in each part of a run.
    package let number: UInt32
}

/// Reads the sorted records of one part of a run, one after the other.
final class RunCursor {
    private enum Source {
        case memory(RunPart)
        case stored(EntryKind, UInt32)
    }

    private let source: Source
    private let buffer = ByteWriter(capacity: 16)
    private var chunks: UInt32 = 0
    private var reader = ByteReader(.empty)
    /// The current record, until the next `advance`; nil before the first and at the end.
    private(set) var record: RunRecord?

    init(_ part: RunPart) { source = .memory(part) }

    init(stored kind: EntryKind, of run: UInt32) { source = .stored(kind, run) }

    /// Reads the next record.
    ///
    /// - Throws: What `read` throws, and `IndexError.damaged` for malformed records.
    func advance(
        _ read: (RunChunk, ByteWriter) throws(IndexError) -> Bool
    ) throws(IndexError) {
        if reader.isAtEnd {
            record = nil
            guard try refill(read) else { return }
        }
        guard let next = RunRecord(&reader) else {
            throw .damaged(.none, "a record of a sorted run is malformed")
        }
        record = next
    }

    private func refill(
        _ read: (RunChunk, ByteWriter) throws(IndexError) -> Bool
    ) throws(IndexError) -> Bool {
        defer { chunks += 1 }
        switch source {
        case .memory(let part):
            guard chunks == 0 else { return false }
            reader = ByteReader(part.view)
        case .stored(let kind, let run):
            buffer.removeAll()
            let chunk = RunChunk(kind: kind, run: run, number: chunks)
            guard try read(chunk, buffer) else { return false }
            reader = ByteReader(buffer.view)
        }
        return !reader.isAtEnd
    }
}

/// Merges sorted parts of runs: records in the order of their keys, those of one key from the oldest
/// run to the newest.
final class RunMerge {
    private struct Head {
        var prefix: UInt64
        let cursor: Int
    }

    private let cursors: [RunCursor]
    /// A binary heap of the cursors that have a record.
    private var heap: [Head] = []
    private var hasBegun = false

    /// A merge of runs, the oldest first.
    init(_ cursors: [RunCursor]) { self.cursors = cursors }

    /// The next record, until `advance`; nil at the end, and before `begin`.
    var record: RunRecord? { heap.first.flatMap { cursors[$0.cursor].record } }

    /// Reads the first record of each run, unless that was done.
    ///
    /// - Throws: What `read` throws; the merge must not be continued then.
    func begin(
        _ read: (RunChunk, ByteWriter) throws(IndexError) -> Bool
    ) throws(IndexError) {
        guard !hasBegun else { return }
        hasBegun = true
        for (index, cursor) in cursors.enumerated() {
            try cursor.advance(read)
            if let record = cursor.record {
                heap.append(Head(prefix: record.key.orderPrefix, cursor: index))
            }
        }
        for place in (0..<heap.count / 2).reversed() { sift(place) }
    }

    /// Moves to the next record.
    ///
    /// - Throws: What `read` throws; the merge must not be continued then.
    func advance(
        _ read: (RunChunk, ByteWriter) throws(IndexError) -> Bool
    ) throws(IndexError) {
        guard let first = heap.first else { return }
        let cursor = cursors[first.cursor]
        try cursor.advance(read)
        if let record = cursor.record {
            heap[0].prefix = record.key.orderPrefix
        } else {
            heap[0] = heap[heap.count - 1]
            heap.removeLast()
        }
        sift(0)
    }

    private func sift(_ start: Int) {
        var place = start
        while true {
            var least = place
            for child in [2 * place + 1, 2 * place + 2] where child < heap.count {
                if precedes(heap[child], heap[least]) { least = child }
            }
            guard least != place else { return }
            heap.swapAt(place, least)
            place = least
        }
    }

    private func precedes(_ one: Head, _ other: Head) -> Bool {
        if one.prefix != other.prefix { return one.prefix < other.prefix }
        guard let key = cursors[one.cursor].record?.key,
            let otherKey = cursors[other.cursor].record?.key
        else { preconditionFailure("a cursor of the heap has a record") }
        if key.precedes(otherKey) { return true }
        return key.equals(otherKey) && one.cursor < other.cursor
    }
}
