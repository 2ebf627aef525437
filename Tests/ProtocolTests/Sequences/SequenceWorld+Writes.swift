/// Writes, durable writes and imports at the owner; replication to the other copies.
extension SequenceWorld {
    /// The owner writes a document of the vBucket, as the gateway or as another program.
    mutating func write(_ vBucket: Int) {
        let node = Int(latest.owner[vBucket])
        guard serves(node, vBucket), !histories[vBucket].isAlmostFull else { return }
        let end = Int(nodes[node].high[vBucket])
        var change = Change()
        let document = vBucket == 0 && dice.oneIn(5) ? 2 : dice.below(2)
        change.document = Int8(document)
        let last = histories[vBucket].lastChange(of: document, below: end)
        if last?.kind == .prepare { return }
        switch dice.below(8) {
        case 0..<2 where maps[nodes[node].map].chain[vBucket].count > 1: change.kind = .prepare
        case 2 where document != 2: return writeForeign(node, vBucket, document)
        default: break
        }
        guard let sequence = draw(node, vBucket, document) else { return }
        change.sequence = sequence
        if document == 2 {
            let place = histories[vBucket].newestVersion(of: 2, below: end)
            change.granted = place < 0 ? 0 : histories[vBucket][place].granted
            if change.granted == 0, dice.oneIn(2) { change.granted = sequence }
        }
        append(change, node, vBucket)
    }

    /// The number of a write; nil if the write only drew its number (a mistake).
    private mutating func draw(_ node: Int, _ vBucket: Int, _ document: Int) -> Int32? {
        guard mistake == .numberDrawnOutsideLock else { return nodes[node].draw(slot: node) }
        let key = vBucket * 3 + document
        guard nodes[node].drawn.sequence > 0 else {
            nodes[node].drawn = (nodes[node].draw(slot: node), key)
            return nil
        }
        guard nodes[node].drawn.key == key else { return nil }
        defer { nodes[node].drawn.sequence = 0 }
        return nodes[node].drawn.sequence
    }

    private mutating func writeForeign(_ node: Int, _ vBucket: Int, _ document: Int) {
        var change = Change()
        change.kind = .foreign
        change.document = Int8(document)
        if mistake == .foreignNumberKept {
            change.kind = .row
            change.sequence = nodes[node].counter * Self.slots - Int32(dice.below(40)) + 20
            if change.sequence <= 0 { return }
        }
        append(change, node, vBucket)
    }

    /// Appends a change to the owner's copy.
    private mutating func append(_ change: Change, _ node: Int, _ vBucket: Int) {
        histories[vBucket].append(change)
        nodes[node].high[vBucket] = Int16(histories[vBucket].count)
        noteCovered(vBucket)
    }

    /// The importer numbers the versions of other programs.
    mutating func importForeign(_ vBucket: Int) {
        let node = Int(latest.owner[vBucket])
        guard serves(node, vBucket) else { return }
        for document in 0..<2 {
            let end = Int(nodes[node].high[vBucket])
            guard histories[vBucket].isUnnumbered(document, below: end),
                !histories[vBucket].isFull
            else { continue }
            var change = Change()
            change.document = Int8(document)
            change.sequence = nodes[node].draw(slot: node)
            append(change, node, vBucket)
            return
        }
    }

    /// Commits a prepare that a majority has, or aborts one that is not inherited.
    mutating func completePrepare(_ vBucket: Int, _ choice: Int) {
        let node = Int(latest.owner[vBucket])
        guard serves(node, vBucket), !histories[vBucket].isFull else { return }
        let end = Int(nodes[node].high[vBucket])
        for document in 0..<3 {
            guard let last = histories[vBucket].lastChange(of: document, below: end),
                last.kind == .prepare
            else { continue }
            var change = histories[vBucket][last.place]
            change.kind = .commit
            if choice & 7 == 0, last.place >= histories[vBucket].inheritedEnd {
                change.kind = .abort
            } else if majorityEnd(node, vBucket) <= last.place {
                continue
            }
            append(change, node, vBucket)
            nodes[node].passes.extend(vBucket, over: last.place, to: end)
            return
        }
    }

    /// The seqno that a majority of the owner's chain has.
    func majorityEnd(_ node: Int, _ vBucket: Int, ignoring ignored: Members = Members()) -> Int {
        let all = maps[nodes[node].map].chain[vBucket]
        let chain = all.subtracting(ignored)
        let majority = chain.count / 2 + 1
        var end = 0
        for holder in 0..<Self.nodes where chain.contains(holder) {
            let high = Int(nodes[holder].high[vBucket])
            var count = 0
            for copy in 0..<Self.nodes where chain.contains(copy) {
                if Int(nodes[copy].high[vBucket]) >= high { count += 1 }
            }
            if count >= majority { end = max(end, high) }
        }
        return end
    }

    mutating func noteCovered(_ vBucket: Int) {
        let owner = Int(latest.owner[vBucket])
        let end = majorityEnd(owner, vBucket)
        histories[vBucket].covered = max(histories[vBucket].covered, end)
    }

    /// The seqno through which feed, ring and index see the vBucket.
    func visibleEnd(_ node: Int, _ vBucket: Int) -> Int {
        switch mistake {
        case .replicationNotAwaited: return Int(nodes[node].high[vBucket])
        case .silentReplicaIgnored:
            var silent = Members()
            for other in 0..<size where !canReach(node, other) { silent.insert(other) }
            return majorityEnd(node, vBucket, ignoring: silent)
        default: return majorityEnd(node, vBucket)
        }
    }

    /// A copy receives the next changes of the owner.
    mutating func replicate(_ vBucket: Int, to node: Int) {
        let owner = Int(latest.owner[vBucket])
        guard owner != node, serves(owner, vBucket), canReach(owner, node) else { return }
        guard latest.members.contains(node) else { return }
        let high = Int(nodes[node].high[vBucket])
        let end = min(histories[vBucket].count, high + 1 + dice.below(4))
        nodes[node].high[vBucket] = Int16(end)
        noteCovered(vBucket)
        if mistake == .counterIgnoresCopies { return }
        for place in high..<max(high, end) {
            nodes[node].raise(to: histories[vBucket][place].sequence / Self.slots)
        }
    }
}
