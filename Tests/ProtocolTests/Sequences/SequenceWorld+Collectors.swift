/// What a collector does with messages and maps.
extension SequenceWorld {
    /// The collector asks for new streams of the vBuckets whose owner changed; of all at its start.
    mutating func openStreams(_ node: Int) {
        let map = maps[nodes[node].map]
        for vBucket in 0..<Self.vBuckets
        where nodes[node].collector.fence[vBucket] != map.fence[vBucket] {
            reopen(vBucket, node)
        }
    }

    private mutating func reopen(_ vBucket: Int, _ node: Int) {
        let map = maps[nodes[node].map]
        streamCount += 1
        nodes[node].collector.beginStream(
            vBucket,
            number: streamCount,
            owner: map.owner[vBucket],
            fence: map.fence[vBucket]
        )
    }

    /// The collector processes the next messages of a connection.
    mutating func receive(_ owner: Int, _ node: Int, count: Int) {
        guard canReach(owner, node) || connections[owner * 4 + node].isBroken, nodes[node].isUp
        else { return }
        for _ in 0..<count {
            guard connections[owner * 4 + node].count > 0 else { break }
            let message = connections[owner * 4 + node].first
            if message.kind == .mark, Int(message.revision) > nodes[node].map,
                mistake != .newerMapNotAwaited
            {
                return
            }
            connections[owner * 4 + node].removeFirst()
            switch message.kind {
            case .row: receiveRow(message, node)
            case .grant:
                if message.stream == nodes[node].collector.stream[0] {
                    nodes[node].collector.granted = message.granted
                }
            case .mark: receiveMark(message, from: owner, node)
            }
        }
        if connections[owner * 4 + node].isBroken, connections[owner * 4 + node].count == 0 {
            noticeCut(owner, node)
        }
    }

    private mutating func noticeCut(_ owner: Int, _ node: Int) {
        connections[owner * 4 + node].renew()
        for vBucket in 0..<Self.vBuckets
        where Int(nodes[node].collector.owner[vBucket]) == owner {
            reopen(vBucket, node)
        }
    }

    private mutating func receiveRow(_ message: Message, _ node: Int) {
        let key = Int(message.key)
        guard nodes[node].collector.stream[key / 3] == message.stream else { return }
        if key == 2 { nodes[node].collector.granted = message.granted }
        guard message.sequence > nodes[node].collector.position else {
            // Below the position at which the collector started, the indexes have it.
            if nodes[node].collector.isConfirmed { report(.late) }
            return
        }
        nodes[node].collector.waiting[key] = Row(
            sequence: message.sequence,
            key: message.key,
            place: message.place,
            granted: message.granted
        )
    }

    private mutating func receiveMark(_ message: Message, from owner: Int, _ node: Int) {
        let mark = message.sequence
        nodes[node].collector.floor[owner] = max(nodes[node].collector.floor[owner], mark)
        for vBucket in 0..<Self.vBuckets
        where Int(nodes[node].collector.owner[vBucket]) == owner {
            let isCovered =
                nodes[node].collector.stream[vBucket] <= message.stream
                || mistake == .streamNumberIgnored
            if isCovered {
                nodes[node].collector.mark[vBucket] = max(
                    nodes[node].collector.mark[vBucket],
                    mark
                )
            }
        }
        deliver(node)
    }

    /// Delivers the waiting rows up to the lowest mark.
    private mutating func deliver(_ node: Int) {
        let map = maps[nodes[node].map]
        var lowest = Int32.max
        var counted = map.members
        if mistake == .minimumOverOwners { counted = Members() }
        for vBucket in 0..<Self.vBuckets {
            lowest = min(lowest, nodes[node].collector.mark[vBucket])
            counted.insert(Int(map.owner[vBucket]))
        }
        for member in 0..<size where counted.contains(member) {
            lowest = min(lowest, nodes[node].collector.floor[member])
        }
        let end = lowest * Self.slots + Self.slots - 1
        guard lowest > 0, end >= nodes[node].collector.position else { return }
        nodes[node].collector.isConfirmed = true
        while let row = nodes[node].collector.firstWaiting(through: end) {
            nodes[node].collector.waiting[Int(row.key)] = Row()
            deliver(row, node)
        }
        nodes[node].collector.position = max(nodes[node].collector.position, end)
    }

    private mutating func deliver(_ row: Row, _ node: Int) {
        if nodes[node].collector.ring.isAlmostFull { isFull = true }
        if nodes[node].collector.ring.isFull { return }
        counts.rows += 1
        let key = Int(row.key)
        if row.sequence <= nodes[node].collector.position { report(.order) }
        nodes[node].collector.position = row.sequence
        nodes[node].collector.ring.append(row)
        nodes[node].collector.newest[key] = row.place + 1
        if !histories[key / 3].noteDelivery(of: row.sequence, at: Int(row.place)) {
            report(.phantom)
        }
    }

    /// The node applies the newest map.
    mutating func applyMap(_ node: Int) {
        guard nodes[node].isUp, nodes[node].map < mapCount - 1 else { return }
        // A silent node hears of no map.
        if nodes[node].isSilent { return }
        let old = maps[nodes[node].map]
        nodes[node].map = mapCount - 1
        let new = maps[mapCount - 1]
        for vBucket in 0..<Self.vBuckets { noteCovered(vBucket) }
        for vBucket in 0..<Self.vBuckets
        where Int(old.owner[vBucket]) == node && old.fence[vBucket] != new.fence[vBucket] {
            for collector in 0..<size {
                connections[node * 4 + collector].stream[vBucket] = 0
            }
            if mistake != .passOutlivesMove { nodes[node].passes = Passes() }
        }
        for member in 0..<size {
            let since = new.memberSince[member]
            if since == nodes[node].collector.memberSince[member] { continue }
            nodes[node].collector.memberSince[member] = since
            if mistake != .floorOutlivesMember { nodes[node].collector.floor[member] = 0 }
            if member != node { noticeCut(member, node) }
        }
        openStreams(node)
    }
}
