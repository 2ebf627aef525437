internal import Vocabulary

/// Readers besides the flusher. The checkpoint keeps what each has to read until the reader is
/// dropped.
extension Checkpoint {
    /// Opens a cursor that reads the changes after `seqno`.
    ///
    /// - Parameters:
    ///   - seqno: The reader's position.
    ///   - id: The number of a cursor that was promised earlier; nil for a new number.
    /// - Returns: The cursor; nil if memory no longer has all changes after `seqno`.
    mutating func openCursor(at seqno: Seqno, id: CursorID? = nil) -> CursorID? {
        guard seqno >= firstReadable, seqno <= highSeqno else { return nil }
        return add(Cursor(id: id ?? nextID(), position: seqno, end: seqno))
    }

    /// Opens a cursor that reads documents of the table, then the later changes.
    ///
    /// - Parameters:
    ///   - seqno: The reader's position.
    ///   - list: The newest version of each key after `seqno`, and prepares, in seqno order.
    ///   - outstanding: All prepares that are not completed, also those before `seqno`.
    ///   - id: The number of a cursor that was promised earlier; nil for a new number.
    /// - Returns: The cursor.
    mutating func openBackfill(
        after seqno: Seqno,
        _ list: [UInt64],
        outstanding: [Seqno],
        id: CursorID? = nil
    ) -> CursorID {
        closedThrough = highSeqno
        var cursor = Cursor(id: id ?? nextID(), position: seqno, end: highSeqno)
        cursor.list = list
        cursor.outstanding = outstanding
        cursor.isBackfill = true
        account.add(cursor.bytes)
        account.addToCheckpoints(cursor.bytes)
        return add(cursor)
    }

    /// A new cursor number.
    mutating func nextID() -> CursorID {
        defer { nextCursor += 1 }
        return CursorID(number: nextCursor)
    }

    private mutating func add(_ cursor: Cursor) -> CursorID {
        cursors.append(cursor)
        settle()
        return cursor.id
    }

    func index(_ id: CursorID) -> Int? { cursors.firstIndex { $0.id == id } }

    /// Closes a cursor and frees what only it had to read.
    mutating func closeCursor(_ id: CursorID) {
        guard let index = index(id) else { return }
        pass(index, through: cursors[index].end)
        cursors.remove(at: index)
        settle()
    }

    func isInSnapshot(_ id: CursorID) -> Bool {
        index(id).map { cursors[$0].isInSnapshot } ?? false
    }

    /// Stores the prepares that are outstanding at the end of a snapshot that was begun in the same
    /// hold of the lock.
    mutating func note(outstanding: [Seqno], for id: CursorID) {
        guard let index = index(id) else { return }
        cursors[index].outstanding = outstanding
        account.add(outstanding.count * 8)
        account.addToCheckpoints(outstanding.count * 8)
    }

    /// The snapshot that the cursor is reading, or a new one through a boundary that is closed now.
    mutating func snapshot(_ id: CursorID) -> CursorSnapshot {
        guard let index = index(id) else { return .dropped }
        let cursor = cursors[index]
        if cursor.isInSnapshot { return .range(start: cursor.position, end: cursor.end) }
        guard cursor.position < highSeqno else {
            hasWaitingCursor = true
            return .drained
        }
        closedThrough = highSeqno
        return begin(index, through: highSeqno)
    }

    /// The snapshot that the cursor is reading, or a new one through the held boundary; `drained`
    /// if the cursor has read everything before it.
    mutating func snapshotThroughHeldBoundary(_ id: CursorID) -> CursorSnapshot {
        guard let index = index(id) else { return .dropped }
        let cursor = cursors[index]
        if cursor.isInSnapshot { return .range(start: cursor.position, end: cursor.end) }
        guard let heldBoundary, cursor.position < heldBoundary else { return .drained }
        return begin(index, through: heldBoundary)
    }

    private mutating func begin(_ index: Int, through boundary: Seqno) -> CursorSnapshot {
        let start = cursors[index].position
        cursors[index].list = entries(after: start, through: boundary)
        cursors[index].next = 0
        cursors[index].end = boundary
        account.add(cursors[index].bytes)
        account.addToCheckpoints(cursors[index].bytes)
        return .range(start: start, end: boundary)
    }

    /// The last visible change that the cursor has yet to read of its snapshot; nil if there is
    /// none.
    func lastVisible(_ id: CursorID) -> Seqno? {
        guard let index = index(id) else { return nil }
        let cursor = cursors[index]
        return cursor.list[cursor.next...].reversed().lazy.map { Entry(word: $0).item }
            .first(where: \.isVisible)?.seqno
    }

    /// Reads the next part of the cursor's snapshot.
    ///
    /// - Parameters:
    ///   - id: The cursor.
    ///   - bytesMax: Stops after the document that reaches this.
    ///   - visit: Called with each document while the lock is held.
    /// - Returns: Whether the snapshot has more.
    mutating func read(_ id: CursorID, bytesMax: Int, _ visit: (Item) -> Void) -> CursorRead {
        guard let index = index(id) else { return .dropped }
        guard cursors[index].isInSnapshot else { return .ended }
        var bytes = 0
        var last = cursors[index].position
        var next = cursors[index].next
        while next < cursors[index].list.count, bytes < bytesMax {
            let item = Entry(word: cursors[index].list[next]).item
            visit(item)
            bytes += item.blockBytes
            last = item.seqno
            next += 1
        }
        let isEnded = next == cursors[index].list.count
        pass(index, through: isEnded ? cursors[index].end : last)
        settle()
        return isEnded ? .ended : .more
    }

    /// Moves a cursor to `seqno` and releases the blocks that it has read.
    private mutating func pass(_ index: Int, through seqno: Seqno) {
        let cursor = cursors[index]
        var next = cursor.next
        while next < cursor.list.count {
            // The item's seqno is read first, because `letGo` may free the item.
            let item = Entry(word: cursor.list[next]).item
            let place = item.seqno
            guard place <= seqno else { break }
            next += 1
            if cursor.isBackfill, shared[place.value] != nil { letGo(item, place) }
        }
        cursors[index].next = next
        cursors[index].position = seqno
        guard seqno == cursor.end else { return }
        account.add(-cursor.bytes)
        account.addToCheckpoints(-cursor.bytes)
        cursors[index].list = []
        cursors[index].outstanding = nil
        cursors[index].next = 0
        cursors[index].isBackfill = false
    }

    /// The cursor with the lowest position, if it keeps anything that the flusher does not need.
    ///
    /// The flusher itself is never dropped: if it is slow, writes are refused instead.
    var slowestCursor: CursorID? {
        guard let slowest = cursors.min(by: { $0.position < $1.position }) else { return nil }
        let isBehind = slowest.position < (flusher ?? highSeqno)
        return isBehind || slowest.isInSnapshot ? slowest.id : nil
    }
}
