internal import Bytes
internal import Vocabulary

/// Readers besides the flusher: each keeps what it has to read, until it is dropped.
extension Checkpoint {
    /// Starts to read behind `seqno`; nil where memory does not reach back that far.
    ///
    /// - Parameters:
    ///   - seqno: Where the reader stands.
    ///   - id: The name that it has been given already, if it has.
    /// - Returns: The reader.
    mutating func openCursor(at seqno: Seqno, id: CursorID? = nil) -> CursorID? {
        guard seqno >= firstReadable, seqno <= highSeqno else { return nil }
        return add(Cursor(id: id ?? nextID(), position: seqno, end: seqno))
    }

    /// Starts to read documents of the table, then what comes behind them.
    ///
    /// - Parameters:
    ///   - seqno: Where the reader stands.
    ///   - list: The newest version of each key behind it, and prepares, in seqno order.
    ///   - outstanding: All prepares that are not completed, those before `seqno` too.
    ///   - id: The name that the reader has been given already, if it has.
    /// - Returns: The reader.
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

    /// A name for a reader.
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

    /// Ends a reader; what only it waited for goes.
    mutating func closeCursor(_ id: CursorID) {
        guard let index = index(id) else { return }
        pass(index, through: cursors[index].end)
        cursors.remove(at: index)
        settle()
    }

    func isInSnapshot(_ id: CursorID) -> Bool {
        index(id).map { cursors[$0].isInSnapshot } ?? false
    }

    /// Keeps what is outstanding at the end of a snapshot that was begun in the same hold of the lock.
    mutating func note(outstanding: [Seqno], for id: CursorID) {
        guard let index = index(id) else { return }
        cursors[index].outstanding = outstanding
        account.add(outstanding.count * 8)
        account.addToCheckpoints(outstanding.count * 8)
    }

    /// The snapshot that is being read, or a new one through a boundary that is closed here.
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

    /// The snapshot that is being read, or a new one through the held boundary; drained where there is
    /// nothing before that.
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

    /// The last visible change of those that a reader has still to read of its snapshot.
    func lastVisible(_ id: CursorID) -> Seqno? {
        guard let index = index(id) else { return nil }
        let cursor = cursors[index]
        return cursor.list[cursor.next...].reversed().lazy.map { Entry(word: $0).item }
            .first(where: \.isVisible)?.seqno
    }

    /// Reads on in a snapshot, until some bytes are visited or it ends.
    ///
    /// - Parameters:
    ///   - id: Whose.
    ///   - bytesMax: Stops behind the document that reaches this.
    ///   - visit: Given each document while the lock is held.
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

    /// Moves a reader behind what it has read, and lets go of it.
    private mutating func pass(_ index: Int, through seqno: Seqno) {
        let cursor = cursors[index]
        var next = cursor.next
        while next < cursor.list.count {
            // Looked at before it is let go, and never afterwards.
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

    /// The cursor that keeps the most in memory, where that is one which can be dropped.
    ///
    /// The flusher cannot: refusing writes is what slows them down for it.
    var slowestCursor: CursorID? {
        guard let slowest = cursors.min(by: { $0.position < $1.position }) else { return nil }
        let isBehind = slowest.position < (flusher ?? highSeqno)
        return isBehind || slowest.isInSnapshot ? slowest.id : nil
    }
}
