/// The index of a node, the ring of a collector, and the clients that read both.
extension SequenceWorld {
    /// The index reaches the position of the newest released pass.
    mutating func advanceIndex(_ node: Int) {
        guard nodes[node].isUp, nodes[node].standing.isServing else { return }
        let closed = nodes[node].closed
        guard closed.mark > 0, closed.mark >= nodes[node].index.mark else { return }
        if mistake == .indexPairTorn, dice.oneIn(2) {
            nodes[node].index.mark = closed.mark
        } else {
            nodes[node].index = closed
        }
    }

    /// The collector drops rows from its ring.
    mutating func trimRing(_ node: Int) {
        guard nodes[node].isUp, nodes[node].collector.isConfirmed else { return }
        let end = nodes[node].collector.position
        nodes[node].collector.ring.drop(through: end - Int32(dice.below(40)))
    }

    /// The client continues at another collector, with its token; or a new client begins.
    mutating func roam(_ reader: Int) {
        let collector = dice.below(size)
        guard nodes[collector].isUp else { return }
        if dice.oneIn(4) { readers[reader] = Reader() }
        readers[reader].collector = collector
        readers[reader].page.isOpen = false
    }

    /// The client's next rows: from the ring if its token is there, otherwise from the indexes.
    mutating func read(_ reader: Int) {
        let node = readers[reader].collector
        guard nodes[node].isUp, nodes[node].collector.isConfirmed else { return }
        if readers[reader].page.isOpen { return continuePage(reader, node) }
        let isInRing = readers[reader].since >= nodes[node].collector.ring.start
        if readers[reader].trigger == 0, isInRing { return readRing(reader, node) }
        readers[reader].page = Page()
        readers[reader].page.isOpen = true
        readers[reader].page.cut = nodes[node].collector.position
    }

    private mutating func receive(_ row: Row, _ reader: Int) {
        let key = Int(row.key)
        if row.place + 1 <= readers[reader].received[key] { report(.roam) }
        readers[reader].received[key] = row.place + 1
        if !histories[key / 3].noteDelivery(of: row.sequence, at: Int(row.place)) {
            report(.phantom)
        }
    }

    // MARK: The ring

    private mutating func readRing(_ reader: Int, _ node: Int) {
        let grant = nodes[node].collector.appliedGrant
        var left = 1 + dice.below(3)
        for place in 0..<nodes[node].collector.ring.count {
            let row = nodes[node].collector.ring[place]
            if row.sequence <= readers[reader].since { continue }
            if grant > readers[reader].since, grant <= row.sequence {
                if applies(grant, at: row) { return readers[reader].begin(backfillOf: grant) }
            }
            if left == 0 { return }
            let channel = Reader.channel(of: Int(row.key))
            let isAllowed = channel == 1 && grant > 0 && (isWhole || grant < row.sequence)
            if channel == 0 || isAllowed { receive(row, reader) }
            if channel < 2 { left -= 1 }
            readers[reader].since = row.sequence
        }
        if grant > readers[reader].since, mistake != .grantOnlyByItsVersion, !isWhole {
            return readers[reader].begin(backfillOf: grant)
        }
        readers[reader].since = max(readers[reader].since, nodes[node].collector.position)
    }

    /// A grant counts for the whole feed, without its sequence (a mistake).
    private var isWhole: Bool { mistake == .grantWithoutSequence }

    private func applies(_ grant: Int32, at row: Row) -> Bool {
        switch mistake {
        case .grantWithoutSequence: false
        case .grantOnlyByItsVersion: row.key == 2 && row.sequence == grant
        default: true
        }
    }

    // MARK: The past

    /// Reads the index of one vBucket; after the last one, the client receives rows.
    private mutating func continuePage(_ reader: Int, _ node: Int) {
        for vBucket in 0..<Self.vBuckets
        where !readers[reader].page.fetched.contains(vBucket) {
            guard fetch(vBucket, reader, node) else { return }
            if readers[reader].page.fetched.count < Self.vBuckets { return }
        }
        readers[reader].page.isOpen = false
        var end = readers[reader].page.cut
        switch mistake {
        case .pageCutAtItsEnd:
            end = min(readers[reader].page.highest, nodes[node].collector.position)
        case .pageCutAtHighest, .pageWithoutCut: end = readers[reader].page.highest
        default: break
        }
        if readers[reader].trigger > 0 {
            sendBackfill(reader, through: end)
        } else {
            sendPage(reader, node, through: end)
        }
    }

    /// False if the owner cannot answer yet.
    private mutating func fetch(_ vBucket: Int, _ reader: Int, _ node: Int) -> Bool {
        let map = maps[nodes[node].map]
        let owner = Int(map.owner[vBucket])
        guard canReach(node, owner), serves(owner, vBucket) else { return false }
        let index = nodes[owner].index
        guard index.fence[vBucket] == map.fence[vBucket] || mistake == .indexOfEarlierOwner else {
            return false
        }
        let end = Int(index.end[vBucket])
        for document in 0..<3 {
            let place = histories[vBucket].newestVersion(of: document, below: end)
            let key = vBucket * 3 + document
            readers[reader].page.rows[key] = Row()
            if place < 0 { continue }
            let change = histories[vBucket][place]
            readers[reader].page.rows[key] = Row(
                sequence: change.sequence,
                key: Int8(key),
                place: Int16(place),
                granted: change.granted
            )
            if key == 2 { readers[reader].page.granted = change.granted }
        }
        let position = index.mark * Self.slots + Self.slots - 1
        let page = readers[reader].page
        let isFirst = page.fetched.isEmpty && mistake == .pageCutByOwnersOnly
        readers[reader].page.cut = isFirst ? position : min(page.cut, position)
        readers[reader].page.highest =
            mistake == .pageCutAtItsEnd && !page.fetched.isEmpty
            ? min(page.highest, position) : max(page.highest, position)
        readers[reader].page.fetched.insert(vBucket)
        return true
    }

    private mutating func sendPage(_ reader: Int, _ node: Int, through cut: Int32) {
        let page = readers[reader].page
        let granted = page.granted > 0 && page.granted <= cut ? page.granted : 0
        let isAhead = granted > readers[reader].since && !isWhole
        let grant: Int32? = isWhole && granted > 0 ? 0 : granted > 0 ? granted : .max
        let end = mistake == .pageWithoutCut ? Int32.max - 1 : isAhead ? granted : cut
        for _ in 0...dice.below(3) {
            guard let row = page.first(above: readers[reader].since, through: end, grant: grant)
            else {
                if isAhead { return readers[reader].begin(backfillOf: granted) }
                // If the ring begins above the cut, the client reads another page.
                let isUnchecked = mistake == .ringStartNotCompared
                let start = isUnchecked ? nodes[node].collector.ring.start : 0
                readers[reader].since = max(readers[reader].since, max(cut, start))
                return
            }
            receive(row, reader)
            readers[reader].since = row.sequence
            counts.pageRows += 1
        }
    }

    /// Sends rows that a grant adds; their tokens are T:S until the last one.
    private mutating func sendBackfill(_ reader: Int, through cut: Int32) {
        let grant = readers[reader].trigger
        guard cut >= grant || mistake == .backfillBeforeIndex else { return }
        let page = readers[reader].page
        for _ in 0...dice.below(2) {
            guard let row = page.firstAdded(above: readers[reader].since, by: grant) else {
                return readers[reader].endBackfill()
            }
            receive(row, reader)
            readers[reader].since = row.sequence
            counts.backfilled += 1
        }
        if mistake == .backfillTokenIncomplete { readers[reader].endBackfill() }
    }
}
