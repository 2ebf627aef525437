/// Closing passes of a node, and the connection on which rows and marks travel.
extension SequenceWorld {
    /// Raises the counter to a mark at or above everything that the node's collector waits for.
    mutating func beginPass(_ node: Int) {
        guard nodes[node].isUp, nodes[node].standing.isServing, !nodes[node].passes.isFull else {
            return
        }
        var pass = Pass()
        if mistake == .seqnosNotedBeforeFloor {
            noteEnds(node, &pass)
        } else {
            pass.mark = raisedMark(node)
        }
        nodes[node].passes.append(pass)
        if !dice.oneIn(4) { recordPass(node) }
    }

    private mutating func raisedMark(_ node: Int) -> Int32 {
        var mark = nodes[node].counter
        if isEnding || dice.oneIn(node == lazy ? 16 : 2) {
            for other in 0..<size { mark = max(mark, nodes[node].collector.floor[other]) }
            mark = max(mark, nodes[node].collector.highestWaiting / Self.slots)
        }
        // A mark may be above everything that it is for.
        if !isEnding, node != lazy, dice.oneIn(3) { mark += Int32(dice.below(12)) }
        if mistake != .floorNotRaised { nodes[node].raise(to: mark) }
        return mark
    }

    /// Notes the high seqno of each vBucket and the open streams.
    private func noteEnds(_ node: Int, _ pass: inout Pass) {
        let map = maps[nodes[node].map]
        pass.revision = Int16(nodes[node].map)
        for vBucket in 0..<Self.vBuckets where serves(node, vBucket) {
            pass.closing.fence[vBucket] = map.fence[vBucket]
            pass.closing.end[vBucket] = nodes[node].high[vBucket]
        }
        for collector in 0..<size {
            pass.opened[collector] = connections[node * 4 + collector].opened
        }
    }

    mutating func recordPass(_ node: Int) {
        for place in 0..<nodes[node].passes.count where !nodes[node].passes[place].isNoted {
            var pass = nodes[node].passes[place]
            if mistake == .seqnosNotedBeforeFloor {
                pass.mark = raisedMark(node)
            } else {
                noteEnds(node, &pass)
            }
            pass.closing.mark = pass.mark
            pass.isNoted = true
            nodes[node].passes[place] = pass
            return
        }
    }

    /// Whether everything below the pass is visible, and no prepare below it is outstanding.
    private func isComplete(_ pass: Pass, _ node: Int) -> Bool {
        for vBucket in 0..<Self.vBuckets where pass.closing.fence[vBucket] >= 0 {
            if !serves(node, vBucket) {
                // Only with a mistake does a pass outlive the ownership of a vBucket.
                continue
            }
            let end = Int(pass.closing.end[vBucket])
            let isVisible = visibleEnd(node, vBucket) >= end
            if !isVisible, mistake != .marksBeforeReplication { return false }
            if mistake == .preparesNotAwaited { continue }
            for document in 0..<3 {
                let high = Int(nodes[node].high[vBucket])
                let last = histories[vBucket].lastChange(of: document, below: high)
                if let last, last.kind == .prepare, last.place < end { return false }
            }
        }
        return true
    }

    /// Sends the mark of the oldest pass to all collectors, after the rows below it.
    mutating func releasePass(_ node: Int) {
        guard nodes[node].isUp, nodes[node].standing.isServing, nodes[node].passes.count > 0 else {
            return
        }
        let pass = nodes[node].passes[0]
        guard pass.isNoted, isComplete(pass, node) else { return }
        for collector in 0..<size { sendMark(pass, node, collector) }
        var closed = pass.closing
        for vBucket in 0..<Self.vBuckets where serves(node, vBucket) {
            closed.end[vBucket] = Int16(visibleEnd(node, vBucket))
        }
        nodes[node].closed = closed
        nodes[node].passes.removeFirst()
    }

    private mutating func sendMark(_ pass: Pass, _ node: Int, _ collector: Int) {
        sendRows(node, collector)
        let connection = node * 4 + collector
        if connections[connection].isBroken { return }
        var message = Message()
        message.kind = .mark
        message.sequence = pass.mark
        message.revision = pass.revision
        let isLate = mistake == .streamsNamedAtSending
        message.stream = isLate ? connections[connection].opened : pass.opened[collector]
        send(message, on: connection)
    }

    /// Appends a message; a connection that has no room is cut.
    private mutating func send(_ message: Message, on connection: Int) {
        if connections[connection].isBroken { return }
        if connections[connection].room == 0 {
            connections[connection].cut(keeping: dice.below(Connection.messagesMax))
        }
        connections[connection].append(message)
    }

    /// Sends the visible rows of all streams of a connection.
    mutating func sendRows(_ node: Int, _ collector: Int) {
        let connection = node * 4 + collector
        for vBucket in 0..<Self.vBuckets where serves(node, vBucket) {
            let stream = connections[connection].stream[vBucket]
            if stream == 0 { continue }
            let isEarly = mistake == .rowsBeforeReplication
            let end = isEarly ? Int(nodes[node].high[vBucket]) : visibleEnd(node, vBucket)
            var place = Int(connections[connection].sent[vBucket])
            while place < end {
                let kind = histories[vBucket][place].kind
                if kind == .row || kind == .commit {
                    send(rowMessage(vBucket, place, stream), on: connection)
                }
                place += 1
            }
            connections[connection].sent[vBucket] = Int16(place)
        }
    }

    private func rowMessage(_ vBucket: Int, _ place: Int, _ stream: Int16) -> Message {
        let change = histories[vBucket][place]
        var message = Message()
        message.key = Int8(vBucket * 3) + change.document
        message.stream = stream
        message.sequence = change.sequence
        message.place = Int16(place)
        message.granted = change.granted
        return message
    }

    /// The owner opens the streams that a collector has asked for.
    mutating func openStreams(_ node: Int, _ collector: Int) {
        guard canReach(node, collector), nodes[node].standing.isServing,
            nodes[node].map >= nodes[collector].map
        else { return }
        let connection = node * 4 + collector
        guard !connections[connection].isBroken else { return }
        while let vBucket = nextToOpen(node, collector), serves(node, vBucket),
            maps[nodes[node].map].fence[vBucket] == nodes[collector].collector.fence[vBucket]
        {
            let number = nodes[collector].collector.stream[vBucket]
            connections[connection].opened = number
            open(vBucket, number, node, collector)
            if connections[connection].isBroken { return }
        }
    }

    /// The vBucket whose stream has the lowest number of those that the owner must open.
    private func nextToOpen(_ node: Int, _ collector: Int) -> Int? {
        var next: Int?
        for vBucket in 0..<Self.vBuckets
        where Int(nodes[collector].collector.owner[vBucket]) == node {
            let number = nodes[collector].collector.stream[vBucket]
            if number <= connections[node * 4 + collector].opened { continue }
            let isLower = next.map { number < nodes[collector].collector.stream[$0] } ?? true
            if isLower { next = vBucket }
        }
        return next
    }

    /// Sends each document's newest version above the collector's position, also if it is not
    /// visible: memory has no older one.
    private mutating func open(_ vBucket: Int, _ stream: Int16, _ node: Int, _ collector: Int) {
        let connection = node * 4 + collector
        let end = Int(nodes[node].high[vBucket])
        connections[connection].stream[vBucket] = stream
        connections[connection].sent[vBucket] = Int16(end)
        for document in 0..<3 {
            let place = histories[vBucket].newestVersion(of: document, below: end)
            guard place >= 0 else {
                let isStated = mistake != .absentGrantNotStated
                if vBucket == 0, document == 2, isStated { sendNoGrant(stream, on: connection) }
                continue
            }
            var message = rowMessage(vBucket, place, stream)
            if message.sequence > nodes[collector].collector.position {
                send(message, on: connection)
            }
            if vBucket == 0, document == 2 {
                message.kind = .grant
                send(message, on: connection)
            }
        }
    }

    /// States that the principal has no grant: the collector may know one of a lost version.
    private mutating func sendNoGrant(_ stream: Int16, on connection: Int) {
        var message = Message()
        message.kind = .grant
        message.stream = stream
        send(message, on: connection)
    }
}
