internal import Bytes
internal import Vocabulary

/// Readers besides the flusher: each keeps what it has to read, until it is dropped.
extension Checkpoint {
    /// Starts to read behind `seqno`; nil where memory does not reach back that far.
    mutating func openCursor(at seqno: Seqno) -> CursorID? {
        guard seqno >= firstReadable, seqno <= highSeqno else { return nil }
        return add(Cursor(id: nextID(), position: seqno, end: seqno))
    }

    /// Starts to read documents of the table, then what comes behind them.
    ///
    /// - Parameters:
    ///   - seqno: Where the reader stands.
    ///   - list: The newest version of each key behind it, and prepares, in seqno order.
    ///   - outstanding: All prepares that are not completed, those before `seqno` too.
    /// - Returns: The reader.
    mutating func openBackfill(
        after seqno: Seqno,
        _ list: [UInt64],
        outstanding: [Seqno]
    ) -> CursorID {
        closedThrough = highSeqno
        var cursor = Cursor(id: nextID(), position: seqno, end: highSeqno)
        cursor.list = list
        cursor.outstanding = outstanding
        cursor.isBackfill = true
        account.add(cursor.bytes)
        account.addToCheckpoints(cursor.bytes)
        return add(cursor)
    }

    private mutating func nextID() -> CursorID {
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
            isSomebodyAsleep = true
            return .drained
        }
        closedThrough = highSeqno
        var list: [UInt64] = []
        changes.forEach(after: cursor.position) { word in
            if !Entry(word: word).isPassedOver { list.append(word) }
        }
        cursors[index].list = list
        cursors[index].next = 0
        cursors[index].end = highSeqno
        account.add(cursors[index].bytes)
        account.addToCheckpoints(cursors[index].bytes)
        return .range(start: cursor.position, end: highSeqno)
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
