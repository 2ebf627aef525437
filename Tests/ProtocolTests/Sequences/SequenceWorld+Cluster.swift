/// Moves, replicas, failures, failovers, and the handshake of a node that starts or returns.
extension SequenceWorld {
    /// Agrees on the next version of the map.
    private mutating func agree(_ map: AgreedOwners) {
        maps[mapCount] = map
        mapCount += 1
        if mapCount == Self.mapsMax { isFull = true }
    }

    private var canAgree: Bool { mapCount < Self.mapsMax - (isEnding ? 0 : 12) }

    /// Whether the orchestrator can use the node.
    private func isWell(_ node: Int) -> Bool {
        nodes[node].isUp && !nodes[node].isSilent && latest.members.contains(node)
    }

    /// Hands a vBucket over to a replica that has all changes.
    mutating func moveOwner(_ vBucket: Int, to node: Int) {
        var map = latest
        let owner = Int(map.owner[vBucket])
        guard canAgree, owner != node, map.chain[vBucket].contains(node), isWell(owner),
            isWell(node), serves(owner, vBucket), nodes[node].standing.isServing,
            nodes[node].high[vBucket] == nodes[owner].high[vBucket]
        else { return }
        map.owner[vBucket] = Int8(node)
        map.fence[vBucket] = Int16(mapCount)
        _ = histories[vBucket].truncate(to: histories[vBucket].count)
        agree(map)
        applyMap(owner)
        if dice.oneIn(2) { applyMap(node) }
        counts.moves += 1
    }

    mutating func addReplica(_ vBucket: Int, _ node: Int) {
        var map = latest
        let owner = Int(map.owner[vBucket])
        guard canAgree, isWell(owner), isWell(node), serves(owner, vBucket),
            nodes[node].standing.isServing, !map.chain[vBucket].contains(node),
            map.chain[vBucket].count < copiesWanted,
            nodes[node].high[vBucket] == nodes[owner].high[vBucket]
        else { return }
        map.chain[vBucket].insert(node)
        agree(map)
        applyMap(owner)
        noteCovered(vBucket)
    }

    mutating func removeReplica(_ vBucket: Int, _ node: Int) {
        var map = latest
        let owner = Int(map.owner[vBucket])
        guard canAgree, owner != node, isWell(owner), serves(owner, vBucket),
            map.chain[vBucket].contains(node)
        else { return }
        map.chain[vBucket].remove(node)
        guard bestCopy(of: vBucket, among: map.chain[vBucket], except: owner) != nil else {
            return
        }
        agree(map)
        applyMap(owner)
        noteCovered(vBucket)
    }

    /// The longest copy that has everything a majority covered; nil if there is none.
    private func bestCopy(of vBucket: Int, among chain: Members, except node: Int) -> Int? {
        var best: Int?
        for copy in 0..<size where copy != node && chain.contains(copy) && isWell(copy) {
            let high = Int(nodes[copy].high[vBucket])
            if high < histories[vBucket].covered { continue }
            if high > best.map({ Int(nodes[$0].high[vBucket]) }) ?? -1 { best = copy }
        }
        return best
    }

    /// Fails over a node that is silent or down: its vBuckets to their longest replicas.
    mutating func failOver(_ node: Int) {
        var map = latest
        guard canAgree, map.members.contains(node), nodes[node].isSilent || !nodes[node].isUp
        else { return }
        for vBucket in 0..<Self.vBuckets where map.chain[vBucket].contains(node) {
            let owner = Int(map.owner[vBucket])
            if owner != node {
                guard isWell(owner), serves(owner, vBucket) else { return }
                map.chain[vBucket].remove(node)
                continue
            }
            guard let best = bestCopy(of: vBucket, among: map.chain[vBucket], except: node) else {
                return
            }
            map.owner[vBucket] = Int8(best)
            map.fence[vBucket] = Int16(mapCount)
            map.chain[vBucket].remove(node)
        }
        map.members.remove(node)
        let old = latest
        agree(map)
        nodes[node].standing = Standing()
        nodes[node].standing.isServing = false
        nodes[node].passes = Passes()
        for other in 0..<size { cutBothWays(node, other) }
        for vBucket in 0..<Self.vBuckets {
            let owner = Int(map.owner[vBucket])
            if map.fence[vBucket] != old.fence[vBucket] {
                truncate(vBucket, to: Int(nodes[owner].high[vBucket]))
            }
            if old.chain[vBucket].contains(node), Int(old.owner[vBucket]) != node {
                applyMap(owner)
            }
        }
        counts.failovers += 1
    }

    private mutating func truncate(_ vBucket: Int, to end: Int) {
        if !histories[vBucket].truncate(to: end) { report(.phantom) }
        for copy in 0..<Self.nodes where Int(nodes[copy].high[vBucket]) > end {
            nodes[copy].high[vBucket] = 0
        }
    }

    // MARK: Connections and processes

    /// Cuts the connections of two nodes, except a node's connection to itself.
    private mutating func cutBothWays(_ node: Int, _ other: Int) {
        guard node != other else { return }
        let kept = dice.below(Connection.messagesMax)
        connections[node * 4 + other].cut(keeping: kept)
        connections[other * 4 + node].cut(keeping: kept)
    }

    mutating func cutConnection(_ node: Int, _ other: Int) {
        if node != other { cutBothWays(node, other) }
    }

    /// Ends the process of a node; its copies stay, except what only an owner had.
    mutating func restart(_ node: Int) {
        guard nodes[node].isUp else { return }
        nodes[node].endProcess()
        for other in 0..<size {
            cutBothWays(node, other)
            connections[other * 4 + node].renew()
        }
        for vBucket in 0..<Self.vBuckets where Int(latest.owner[vBucket]) == node {
            var longest = histories[vBucket].covered
            for copy in 0..<size where copy != node {
                longest = max(longest, Int(nodes[copy].high[vBucket]))
            }
            if dice.oneIn(2), longest < histories[vBucket].count {
                truncate(vBucket, to: longest)
                nodes[node].high[vBucket] = Int16(longest)
            }
        }
        counts.restarts += 1
    }

    /// The process of a node starts, with a new collector.
    mutating func start(_ node: Int) {
        guard !nodes[node].isUp, latest.members.contains(node) else { return }
        launch(node)
        if mistake == .startWithoutHandshake, nodes[node].standing.hasServed {
            nodes[node].standing = Standing()
        } else {
            nodes[node].standing.beginHandshake(at: nodes[node].map)
        }
    }

    private mutating func launch(_ node: Int) {
        nodes[node].isUp = true
        nodes[node].isSilent = false
        nodes[node].map = mapCount - 1
        var counter = nodes[node].reserved
        if mistake == .counterFromDocuments {
            counter = 0
            for vBucket in 0..<Self.vBuckets {
                for place in 0..<Int(nodes[node].high[vBucket]) {
                    counter = max(counter, histories[vBucket][place].sequence / Self.slots)
                }
            }
        }
        nodes[node].restartCounter(from: counter)
        // The collector starts at 0, or at its counter: the indexes have what is below.
        var collector = Collector()
        if dice.oneIn(2) {
            collector.position = counter * Self.slots + Self.slots - 1
            collector.origin = collector.position
            collector.isConfirmed = false
            collector.ring = Ring(start: collector.position)
        }
        for member in 0..<size { collector.memberSince[member] = latest.memberSince[member] }
        nodes[node].collector = collector
        openStreams(node)
    }

    // MARK: Start, join and return

    /// Makes a node a member that was failed over, or that never was one.
    mutating func returnMember(_ node: Int) {
        var map = latest
        guard canAgree, !map.members.contains(node), !nodes[node].isSilent else { return }
        map.members.insert(node)
        map.memberSince[node] = Int16(mapCount)
        agree(map)
        if nodes[node].isUp { applyMap(node) } else { launch(node) }
        nodes[node].standing.beginHandshake(at: mapCount - 1)
        counts.returns += 1
    }

    /// A failed-over node is given up; a new node gets its slot.
    mutating func replaceNode(_ node: Int) {
        guard !latest.members.contains(node), canAgree else { return }
        nodes[node].endProcess()
        nodes[node].becomeNew()
        nodes[node].isSilent = false
        for other in 0..<size {
            connections[node * 4 + other].cut(keeping: 0)
            connections[other * 4 + node].renew()
        }
        returnMember(node)
    }

    /// One member answers the node that waits to serve; after the last answer the node serves.
    mutating func continueHandshake(_ node: Int, _ member: Int) {
        let revision = Int(nodes[node].standing.revision)
        guard nodes[node].isUp, revision >= 0, canReach(node, member) else { return }
        applyMap(node)
        guard maps[nodes[node].map].members.contains(node) else { return }
        if maps[nodes[node].map].members.contains(member),
            nodes[member].map >= revision || mistake == .servesBeforeCounted
        {
            nodes[node].standing.answered.insert(member)
            let isRead = mistake != .positionsNotExchanged
            let mark = isRead ? nodes[member].collector.position / Self.slots : 0
            nodes[node].standing.highest = max(
                nodes[node].standing.highest,
                max(nodes[member].counter, mark)
            )
        }
        let missing = maps[nodes[node].map].members.subtracting(nodes[node].standing.answered)
        let isEnough = mistake == .oneMemberAsked && nodes[node].standing.answered.count > 1
        guard missing.isEmpty || isEnough else { return }
        if mistake != .counterNotExchanged {
            nodes[node].raise(to: nodes[node].standing.highest)
        }
        nodes[node].standing = Standing()
    }
}
