/// Streams from the active copy to a replica, in snapshots; flushes and crashes.
extension World {
    mutating func openStream(_ node: Int) {
        let map = map(of: node)
        let active = map.active
        guard node != active, !map.isUnconfirmed, copies[node].role == .follows,
            map.row.union(map.target).contains(node), copies[node].streamFence != map.fence,
            !copies[node].isSealed, copies[active].isServing, copies[active].fence == map.fence
        else { return }
        // The content after an incomplete reconcile belongs to no history: discard it.
        if copies[node].memory.isVoid { copies[node].memory = Image() }
        let common = commonPoint(node, active)
        copies[node].producer = active
        copies[node].streamFence = map.fence
        copies[node].streamTarget = copies[active].memory.high
        copies[node].producerLog = copies[active].memory.log
        copies[node].listed = Members()
        copies[active].acknowledgedInMemory[node] = 0
        copies[active].acknowledgedOnDisk[node] = 0
        if let common {
            rewinds += 1
            if rewindsToNothing { beginAnew(node) } else { beginReconcile(node, from: common) }
        } else if copies[node].memory.covered >= copies[node].streamTarget {
            copies[node].isIntact = true
        }
        guard !copies[node].memory.isVoid else { return }
        copies[node].memory.log = copies[active].memory.log
        if mistake != .wholeLogAdopted {
            copies[node].memory.log.truncate(to: copies[node].memory.covered)
        }
    }

    /// The last common seqno of the two histories; nil if the copy has nothing beyond it.
    private func commonPoint(_ node: Int, _ active: Int) -> Int32? {
        let mine = copies[node].memory
        let theirs = copies[active].memory
        if mine.partialEnd > 0 {
            let end = theirs.log.end(of: mine.partialFence, high: theirs.high)
            if let end, end >= mine.partialEnd { return nil }
            let point = mine.log.commonPoint(
                reaching: mine.covered,
                theirs.log,
                reaching: theirs.high
            )
            return min(point, mine.covered)
        }
        let point = mine.log.commonPoint(reaching: mine.high, theirs.log, reaching: theirs.high)
        return mine.high > point ? point : nil
    }

    /// Lists the keys that the copy changed above the common point; the copy is void until the next
    /// snapshot has replaced all of them.
    private mutating func beginReconcile(_ node: Int, from point: Int32) {
        let had = held(node)
        for key in 0..<2 {
            let image = copies[node].memory
            if image.value[key].seqno > point || image.prepare[key].seqno > point {
                copies[node].listed.insert(key)
            }
        }
        copies[node].memory.isVoid = true
        copies[node].memory.covered = point
        copies[node].memory.partialEnd = 0
        copies[node].isIntact = false
        copies[node].isDiskCurrent = false
        noteLosses(node, had: had)
    }

    /// Discards the whole copy, including the common history.
    private mutating func beginAnew(_ node: Int) {
        let had = held(node)
        copies[node].memory = Image()
        copies[node].isIntact = false
        copies[node].isDiskCurrent = false
        noteLosses(node, had: had)
    }

    mutating func beginSnapshot(_ node: Int) {
        let fence = copies[node].streamFence
        let active = copies[node].producer
        guard fence != 0, !copies[node].snapshot.isOpen, !copies[node].isSealed,
            copies[active].isServing,
            copies[active].fence == fence
        else { return }
        let theirs = copies[active].memory
        let start = copies[node].memory.covered
        if theirs.high == start, !copies[node].memory.isVoid { return }
        var snapshot = Snapshot()
        snapshot.isOpen = true
        snapshot.end = theirs.high
        snapshot.value = theirs.value
        snapshot.prepare = theirs.prepare
        for key in 0..<2 {
            if theirs.value[key].seqno > start || copies[node].listed.contains(key) {
                snapshot.insert(.init(version: theirs.value[key], key: Int8(key)))
            }
            if theirs.prepare[key].seqno > start {
                snapshot.insert(
                    .init(version: theirs.prepare[key], key: Int8(key), isPrepare: true)
                )
            }
        }
        copies[node].snapshot = snapshot
    }

    /// Applies the next item of the snapshot, or its end.
    mutating func receive(_ node: Int) {
        guard copies[node].snapshot.isOpen, !copies[node].isSealed else { return }
        let next = copies[node].snapshot.next
        guard next < copies[node].snapshot.count else { return endSnapshot(node) }
        let item = copies[node].snapshot.items[next]
        let key = Int(item.key)
        copies[node].snapshot.next += 1
        if item.isPrepare {
            copies[node].memory.prepare[key] = item.version
        } else {
            copies[node].memory.value[key] = item.version
            if copies[node].memory.prepare[key].seqno < item.version.seqno {
                copies[node].memory.prepare[key] = Version()
            }
        }
        copies[node].memory.high = max(copies[node].memory.high, item.version.seqno)
        copies[node].memory.partialEnd = copies[node].snapshot.end
        copies[node].memory.partialFence = copies[node].producerLog.lastFence
    }

    private mutating func endSnapshot(_ node: Int) {
        let snapshot = copies[node].snapshot
        // An abort leaves no item: only the list of outstanding prepares shows it.
        if mistake != .outstandingPreparesUnlisted {
            copies[node].memory.prepare = snapshot.prepare
        }
        copies[node].memory.high = snapshot.end
        copies[node].memory.covered = snapshot.end
        copies[node].memory.partialEnd = 0
        copies[node].memory.isVoid = false
        copies[node].memory.log = copies[node].producerLog
        if mistake != .wholeLogAdopted {
            copies[node].memory.log.truncate(to: snapshot.end)
        }
        copies[node].listed = Members()
        copies[node].snapshot.isOpen = false
        if snapshot.end >= copies[node].streamTarget { copies[node].isIntact = true }
        for key in 0..<2
        where copies[node].memory.value[key] != snapshot.value[key]
            || copies[node].memory.prepare[key] != snapshot.prepare[key]
        {
            violation = .diverged
        }
        noteGains(node)
    }

    mutating func acknowledge(_ node: Int) {
        let fence = copies[node].streamFence
        let active = copies[node].producer
        guard fence != 0, !copies[node].isSealed, copies[active].believesToServe,
            copies[active].fence == fence
        else { return }
        if !copies[node].memory.isVoid {
            let isByHigh = mistake == .acknowledgementInsideSnapshot
            copies[active].acknowledgedInMemory[node] =
                isByHigh ? copies[node].memory.high : copies[node].memory.covered
        }
        copies[active].acknowledgedOnDisk[node] = copies[node].onDisk
        copies[active].acknowledgedBoot[node] = copies[node].boot
    }

    mutating func flush(_ node: Int) {
        if copies[node].memory.isVoid { return }
        copies[node].disk = copies[node].memory
        copies[node].isDiskCurrent = true
    }

    mutating func crash(_ node: Int) {
        let had = held(node)
        copies[node].crash()
        if mistake == .volatileSeal { copies[node].sealedAt = 0 }
        noteLosses(node, had: had)
    }
}
