/// The metadata log.
extension LeaseWorld {
    mutating func elect(_ node: Int, reaching: Members) {
        let configuration = members[node].configuration
        guard configuration.voters.union(configuration.outgoing).contains(node) else { return }
        let term = members[node].term + 1
        var votes = Members()
        for voter in 0..<Self.nodes where reaching.contains(voter) || voter == node {
            let isNewer =
                (members[voter].lastTerm, members[voter].count)
                > (members[node].lastTerm, members[node].count)
            if members[voter].term >= term || isNewer { continue }
            follow(voter, term)
            votes.insert(voter)
        }
        guard configuration.isQuorum(votes), append(node, Entry()) else { return }
        for place in 0..<commit where members[node].log[place].term != committed[place] {
            violation = .forked
        }
        members[node].isLeader = true
        members[node].acknowledged = .init(repeating: 0)
        members[node].leader = node
    }

    private mutating func follow(_ node: Int, _ term: Int32) {
        members[node].term = term
        members[node].isLeader = false
        members[node].leader = -1
        members[node].verified = 0
    }

    private mutating func append(_ node: Int, _ entry: Entry) -> Bool {
        guard members[node].count < Voter.entriesMax else {
            isOver = true
            return false
        }
        var entry = entry
        entry.term = members[node].term
        members[node].append(entry)
        return true
    }

    mutating func replicate(_ node: Int, _ leader: Int, upTo choice: Int) {
        guard node != leader, members[leader].isLeader,
            members[node].term <= members[leader].term
        else { return }
        if members[node].term < members[leader].term { follow(node, members[leader].term) }
        let end = members[leader].count - (choice & 3 == 0 ? choice >> 2 & 1 : 0)
        for place in 0..<end {
            let entry = members[leader].log[place]
            if place < members[node].count {
                if members[node].log[place].term == entry.term { continue }
                members[node].count = place
            }
            members[node].append(entry)
        }
        members[node].leader = leader
        members[node].verified = end
        members[node].commit = max(members[node].commit, min(end, members[leader].commit))
    }

    /// Acknowledges entries to the leader; a leader acknowledges to itself.
    mutating func acknowledge(_ node: Int) {
        let leader = members[node].leader
        guard leader >= 0, members[leader].isLeader, members[leader].term == members[node].term
        else { return }
        let end = leader == node ? members[node].count : members[node].verified
        let upTo = members[node].acknowledgeable(upTo: end, mistake: mistake)
        members[leader].acknowledged[node] = max(members[leader].acknowledged[node], upTo)
    }

    /// The leader commits what a quorum of the newest voters has acknowledged.
    mutating func advance(_ node: Int) {
        guard members[node].isLeader else { return }
        let configuration = members[node].configuration
        var index = members[node].count
        while index > members[node].commit {
            let nodes = acknowledging(node, index)
            if members[node].log[index - 1].term == members[node].term,
                configuration.isQuorum(nodes)
            {
                break
            }
            index -= 1
        }
        members[node].commit = max(members[node].commit, index)
        while commit < members[node].commit {
            let deposed = Int(members[node].log[commit].deposes)
            committed[commit] = members[node].log[commit].term
            commit += 1
            if deposed >= 0 { deposedAt[deposed] = commit }
        }
    }

    private func acknowledging(_ leader: Int, _ index: Int) -> Members {
        var nodes = Members()
        for voter in 0..<Self.nodes where members[leader].acknowledged[voter] >= index {
            nodes.insert(voter)
        }
        return nodes
    }

    /// Restarts a node.
    ///
    /// It has lost its promises, so it withholds entries that would have to wait for one, for the
    /// duration of a promise (`restartHold`).
    mutating func restart(_ node: Int) {
        members[node].promised = .init(repeating: 0)
        members[node].holds = .init(repeating: 0)
        members[node].grantedAt = .init(repeating: .min)
        members[node].repliedAt = .init(repeating: .min)
        members[node].restartHold = members[node].clock + promise
        follow(node, members[node].term)
        for other in 0..<Self.nodes {
            beats[node * 6 + other].isSent = false
            replies[other * 6 + node].isSent = false
        }
    }

    mutating func depose(_ leader: Int, _ node: Int) {
        guard members[leader].isLeader else { return }
        _ = append(leader, Entry(deposes: Int8(node)))
    }

    /// Changes the voters jointly, even if only one voter differs: majorities of the two sets have
    /// a voter in common, but a blocking set of one need not block the other.
    mutating func change(_ leader: Int, _ choice: Int) {
        guard members[leader].isLeader else { return }
        let now = members[leader].configuration
        let commit = members[leader].commit
        guard now.index <= commit, members[leader].log[commit - 1].term == members[leader].term
        else { return }
        if !now.outgoing.isEmpty {
            _ = append(leader, Entry(voters: now.voters))
            return
        }
        if choice & 0xc0 == 0 {
            var next = now.voters
            let one = choice % Self.nodes
            if next.contains(one) { next.remove(one) } else { next.insert(one) }
            guard !next.isEmpty else { return }
            let outgoing = mistake == .changesAtOnce ? Members() : now.voters
            _ = append(leader, Entry(voters: next, outgoing: outgoing))
            return
        }
        let next = Members(bits: UInt8(choice & 0x3f))
        guard !next.isEmpty, next != now.voters else { return }
        _ = append(leader, Entry(voters: next, outgoing: now.voters))
    }
}
