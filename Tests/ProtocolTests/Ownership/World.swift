/// One vBucket on four nodes: its copies, the agreed maps, and the acknowledgements to clients.
///
/// A model without bytes and time; it has only messages whose order matters. A step is one action
/// of one node or of the orchestrator. The random generator chooses the next step, so every delay
/// and every lag occurs in some walk. The rules are those of the cluster's design:
///
/// - Each fence has one writer, and the writer answers only with a lease.
/// - A copy is sealed before it reports its position.
/// - Positions and acknowledgements use the covered seqno, never the high seqno.
/// - A promoted copy completes every inherited prepare, because it may have been committed.
///
/// Invariants of the model:
///
/// - All state is stored inline: a step allocates nothing.
/// - A walk depends only on the arguments of `walk`.
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
    /// Snapshots arrive slowly, so that many steps happen inside one.
    let isSlow: Bool
    /// Key 1 is also written without durability.
    let isMixed: Bool
    /// Replicas are given up: removed from the chain with what they have, and not queried again.
    let givesUp: Bool
    /// If the histories of a copy and its producer diverge, the copy discards everything, as the
    /// product does; if false, the copy requests again the keys that it changed after the
    /// divergence.
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
    /// Nodes that were given up, or removed by a promotion, and are in no chain since: not queried.
    var givenUp = Members()
    var promises: Promises
    var violation: Violation?
    var isOver = false
    /// How often a copy had diverged from its producer.
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

    /// Whether a report or proposal of this fence and stage is still valid.
    func isCurrent(fence: Int32, stage: Int32) -> Bool {
        fence == latest.fence && (stage == latest.stage || mistake == .stageNotCompared)
    }

    var nextFence: Int32 { Int32(mapCount) + 1 }
}

/// Random walks through the model.
extension World {
    static let stepsMax = 1_000

    /// The first violation of one walk; nil if there is none.
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
        // Most writes are sent to the active node, so that most of them succeed.
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

    /// The next step of the node's stream.
    private mutating func stream(_ node: Int) {
        if copies[node].snapshot.isOpen {
            if !isSlow || dice.oneIn(4) { receive(node) }
        } else if copies[node].streamFence == 0 {
            openStream(node)
        } else {
            beginSnapshot(node)
        }
    }

    /// One step of the orchestrator: of a move, or, from a random moment on, of a failover.
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
