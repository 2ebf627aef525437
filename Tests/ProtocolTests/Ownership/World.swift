/// One vBucket on four nodes, what was agreed on about it, and what was promised to clients.
///
/// A model: no bytes, no time, no messages but those whose order matters. A step is one thing that
/// one node, or the orchestrator, does; which one is next is the dice's choice, so every delay and
/// every lag is a walk somewhere. The rules are those of the cluster's design: one fence one
/// writer, seal before asking, covered never high, what might be committed is, and the lease.
///
/// - Everything is in place: a step allocates nothing.
/// - A walk is its seed, the number of copies and the mistake; nothing else goes in.
struct World {
    static let nodes = 4
    static let mapsMax = 64
    static let writesMax = 256

    struct Report {
        var fence: Int32 = 0
        var stage: Int32 = 0
        var position = Position.void
        var isIntact = false
    }

    struct Proposal {
        var fence: Int32 = 0
        var stage: Int32 = 0
        var chosen = 0
        var expected = Position.void
        var row = Members()
    }

    struct Drained {
        var fence: Int32 = 0
        var final = Position.void
    }

    /// Copies a chain should have, and how many of them a durable write needs.
    let copiesWanted: Int
    let majority: Int
    let mistake: Mistake
    /// Durability levels that this walk's clients use: bit 1 majority, 2 and persist to active,
    /// 3 persist to majority.
    let levels: UInt8
    /// Snapshots are long on their way.
    let isSlow: Bool
    /// Key 1 is also written without durability.
    let isMixed: Bool
    /// Replicas are given up: they are no longer queried, whatever they have.
    let givesUp: Bool
    /// Where histories part, the copy begins from nothing, as built; else it asks for the keys that
    /// it has and others may not.
    let rewindsToNothing: Bool

    var dice: Dice
    var copies: [4 of Copy]
    var maps: [64 of AgreedMap]
    var mapCount = 1
    var reports: [4 of Report]
    var proposal: Proposal?
    var readyFence: Int32 = 0
    var drained = Drained()
    var isFailingOver = false
    /// Given up, or left behind by a promotion, and in no chain since: not queried.
    var givenUp = Members()
    var promises: Promises
    var violation: Violation?
    var isOver = false
    /// How often histories had parted.
    var rewinds = 0

    init(
        seed: UInt64,
        copies wanted: Int,
        mistake: Mistake,
        givesUp: Bool = false,
        rewindsToNothing: Bool = false
    ) {
        copiesWanted = wanted
        majority = wanted / 2 + 1
        self.mistake = mistake
        self.givesUp = givesUp
        self.rewindsToNothing = rewindsToNothing
        dice = Dice(seed: seed)
        let choice = dice.below(6)
        levels = choice < 3 ? 1 << UInt8(choice + 1) : 0b1110
        isMixed = dice.oneIn(2)
        isSlow = dice.oneIn(3)
        copies = .init(repeating: Copy())
        maps = .init(repeating: AgreedMap())
        reports = .init(repeating: Report())
        promises = Promises()
        maps[0].row = Members(bits: UInt8(1 << wanted - 1))
        maps[0].basis = maps[0].row
        copies[0].role = .active
        copies[0].isIntact = true
        copies[0].hasLease = true
    }

    var latest: AgreedMap { maps[mapCount - 1] }

    func map(of node: Int) -> AgreedMap { maps[copies[node].map] }

    /// Agrees on the next version of the map.
    mutating func agree(_ map: AgreedMap) {
        guard mapCount < Self.mapsMax else {
            isOver = true
            return
        }
        let last = latest
        let isStage =
            map.fence != last.fence || map.basis != last.basis
            || map.isUnconfirmed != last.isUnconfirmed
        maps[mapCount] = map
        maps[mapCount].stage = last.stage + (isStage ? 1 : 0)
        givenUp = givenUp.subtracting(map.basis)
        mapCount += 1
    }

    /// What was learned or proposed at this fence and stage still holds.
    func isCurrent(fence: Int32, stage: Int32) -> Bool {
        fence == latest.fence && (stage == latest.stage || mistake == .stageNotCompared)
    }

    var nextFence: Int32 { Int32(mapCount) + 1 }
}

/// Walks, and what they found.
extension World {
    static let stepsMax = 1_000

    /// The first violation within one walk.
    static func walk(
        seed: UInt64,
        copies: Int,
        mistake: Mistake = .none,
        givesUp: Bool = false,
        rewindsToNothing: Bool = false
    ) -> Violation? {
        var world = World(
            seed: seed,
            copies: copies,
            mistake: mistake,
            givesUp: givesUp,
            rewindsToNothing: rewindsToNothing
        )
        for _ in 0..<stepsMax {
            world.step()
            if world.isOver || world.violation != nil { break }
        }
        return world.violation
    }

    mutating func step() {
        let random = dice.next()
        let node = Int(random & 3)
        let key = Int(random >> 2 & 1)
        if givesUp, dice.oneIn(300) { giveUp(dice.below(Self.nodes)) }
        // Readers are many, and query every node that may still assume to be active.
        read(Int(random >> 50 & 3), Int(random >> 52 & 1))
        // Writers find the active more often than not.
        let likely = random >> 3 & 3 == 0 ? node : latest.active
        if isFailingOver, random >> 40 & 1 == 0 { return orchestrate(Int(random >> 16 & 0xffff)) }
        switch Int(random >> 8 & 0xff) {
        case 0..<24: write(likely, key)
        case 24..<54: complete(likely, key)
        case 54..<57: abort(likely, key)
        case 57..<132: stream(node)
        case 132..<162: acknowledge(node)
        case 162..<172: flush(node)
        case 172..<173: crash(node)
        case 173..<204: applyMap(node)
        case 204..<206: activate(latest.active)
        case 206..<236: orchestrate(Int(random >> 16 & 0xffff))
        case 236..<239: handOver(likely)
        case 239..<249: drain(likely)
        case 249..<250: copies[node].hasLease = false
        default: renewLease(likely)
        }
    }

    /// Whatever is next on the node's stream.
    private mutating func stream(_ node: Int) {
        if copies[node].snapshot.isOpen {
            if !isSlow || dice.oneIn(4) { receive(node) }
        } else if copies[node].streamFence == 0 {
            openStream(node)
        } else {
            beginSnapshot(node)
        }
    }

    /// What the orchestrator does: moves, until it takes it into its head to fail over.
    private mutating func orchestrate(_ choice: Int) {
        let node = choice & 3
        let kind = choice >> 2 & 63
        guard isFailingOver else {
            switch kind {
            case 0..<2: isFailingOver = true
            case 44..<64 where copies[latest.active].role == .follows: isFailingOver = true
            case 3..<4: cancelMove()
            case 4..<6: commitProposal()
            case 6..<20: startMove(choice >> 8)
            case 20..<40: joinChains()
            case 40..<50: finishMove()
            case 50..<60: takeOver()
            default: clean()
            }
            return
        }
        switch kind {
        case 0..<22: seal(node)
        case 22..<30: propose()
        case 30..<38: commitProposal()
        case 38..<46: activate(latest.active)
        case 46..<56:
            confirm()
            if !latest.isUnconfirmed, reports[latest.active].fence != latest.fence {
                isFailingOver = false
            }
        case 56..<57:
            if latest.isUnconfirmed { return }
            resume()
            isFailingOver = false
        default: copies[latest.active].hasLease = false
        }
    }
}
