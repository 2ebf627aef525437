/// Sequences and marks of a database on up to four nodes, until clients have its feed.
///
/// Every node draws sequences from its own counter and sends marks: "all my later writes are above
/// T". Every node is also a collector: it reads the streams of all vBuckets, and delivers rows in
/// order up to the lowest mark. Clients read a feed from one collector, move to another with a
/// token, and read the past from the owners' indexes.
///
/// A step is one action of one node, of the orchestrator or of a client. The random generator
/// chooses the next step. The model has no bytes and no time. It assumes what the other models
/// show: one owner writes a vBucket, and a promotion keeps what a majority of the chain covers.
///
/// Invariants of the model:
///
/// - All state is allocated at the begin of a walk; of the steps, only the start of a node
///   allocates.
/// - A walk depends only on the arguments of `walk`.
struct SequenceWorld {
    static let nodes = 4
    static let vBuckets = 3
    static let readers = 3
    static let mapsMax = 64
    /// A sequence is a counter times this number, plus the slot of its node.
    static let slots: Int32 = 4

    let mistake: SequenceMistake
    /// The nodes that this walk has.
    let size: Int
    /// The copies that a chain should have.
    let copiesWanted: Int
    /// A node whose marks stay behind those of the other nodes; in some walks there is none.
    let lazy: Int
    /// One of so many writes is made.
    let pauses: Int
    /// Of 16 steps, those of the orchestrator or of a failure.
    let changes: Int

    var dice: Dice
    var maps: [AgreedOwners]
    var mapCount = 1
    var histories: [History]
    var nodes: [SequenceNode]
    /// By owner and collector: `owner * 4 + collector`.
    var connections: [Connection]
    var readers: [Reader]
    var streamCount: Int16 = 0
    var isFull = false
    /// Until the walk ends, some nodes may be silent, down or not members.
    var isEnding = false
    var violation: SequenceViolation?
    var counts = Counts()

    /// How often things happened, so that a test can state that the walks are evidence.
    struct Counts {
        var rows = 0
        var failovers = 0
        var returns = 0
        var restarts = 0
        var moves = 0
        var pageRows = 0
        var backfilled = 0
    }

    init(seed: UInt64, mistake: SequenceMistake) {
        self.mistake = mistake
        var dice = Dice(seed: seed)
        let size = 2 + dice.below(3)
        copiesWanted = size > 2 && dice.oneIn(3) ? 3 : 2
        // In some walks the last node joins later.
        let first = size > 2 && dice.oneIn(3) ? size - 1 : size
        pauses = [1, 1, 5, 30][dice.below(4)]
        lazy = dice.below(2 * Self.nodes)
        changes = 1 << dice.below(3)
        self.size = size
        self.dice = dice
        maps = .init(repeating: AgreedOwners(), count: Self.mapsMax)
        histories = (0..<Self.vBuckets).map { _ in History() }
        nodes = (0..<Self.nodes).map { _ in SequenceNode() }
        connections = (0..<Self.nodes * Self.nodes).map { _ in Connection() }
        readers = .init(repeating: Reader(), count: Self.readers)
        formCluster(of: first)
    }

    private mutating func formCluster(of first: Int) {
        for node in 0..<Self.nodes where node >= first {
            nodes[node].isUp = false
            nodes[node].standing.isServing = false
        }
        maps[0].members = Members(bits: UInt8(1 << first - 1))
        for vBucket in 0..<Self.vBuckets {
            let owner = dice.below(first)
            maps[0].owner[vBucket] = Int8(owner)
            for copy in 0..<min(copiesWanted, first) {
                maps[0].chain[vBucket].insert((owner + copy) % first)
            }
        }
        let spread = dice.below(3) * 8
        for node in 0..<first {
            openStreams(node)
            nodes[node].raise(to: Int32(spread + dice.below(spread + 1)))
        }
        for reader in 0..<Self.readers { readers[reader].collector = dice.below(first) }
    }

    var latest: AgreedOwners { maps[mapCount - 1] }

    /// Whether messages pass between two nodes.
    func canReach(_ node: Int, _ other: Int) -> Bool {
        guard nodes[node].isUp, nodes[other].isUp else { return false }
        return node == other || !nodes[node].isSilent && !nodes[other].isSilent
    }

    /// Whether the node serves the vBucket by the map that it has applied.
    func serves(_ node: Int, _ vBucket: Int) -> Bool {
        nodes[node].isUp && nodes[node].standing.isServing
            && Int(maps[nodes[node].map].owner[vBucket]) == node
            && maps[nodes[node].map].fence[vBucket] == maps[mapCount - 1].fence[vBucket]
    }

    mutating func report(_ found: SequenceViolation) {
        if violation == nil { violation = found }
    }
}

/// Random walks through the model.
extension SequenceWorld {
    static let stepsMax = 600

    /// The first violation of one walk; nil if there is none.
    static func walk(seed: UInt64, mistake: SequenceMistake = .none) -> SequenceViolation? {
        var world = SequenceWorld(seed: seed, mistake: mistake)
        world.run()
        return world.violation
    }

    mutating func run() {
        for _ in 0..<Self.stepsMax {
            step()
            if violation != nil { return }
            if isFull { break }
        }
        end()
    }

    mutating func step() {
        let random = dice.next()
        let node = Int(random & 0xff) % size
        let other = Int(random >> 8 & 0xff) % size
        let vBucket = Int(random >> 16 & 0xff) % Self.vBuckets
        if dice.below(16) < changes {
            return changeCluster(node, vBucket, Int(random >> 32 & 0xff))
        }
        switch Int(random >> 24 & 0xff) {
        case 0..<36: if dice.oneIn(pauses) { write(vBucket) }
        case 36..<46: completePrepare(vBucket, Int(random >> 32 & 0xff))
        case 46..<52: importForeign(vBucket)
        case 52..<84: replicate(vBucket)
        case 84..<104: beginPass(node)
        case 104..<118: recordPass(node)
        case 118..<140: for each in 0..<size { releasePass(each) }
        case 140..<152: for each in 0..<size { openStreams(each, other) }
        case 152..<158: sendRows(node, other)
        case 158..<194: receive(node, Int(random >> 32 & 0xff))
        case 194..<204: applyMap(node)
        case 204..<212: advanceIndex(node)
        case 212..<216: trimRing(node)
        case 216..<240: read(Int(random >> 32 & 0xff) % Self.readers)
        case 240..<244: roam(Int(random >> 32 & 0xff) % Self.readers)
        default: for each in 0..<size { continueHandshake(each, other) }
        }
    }

    private mutating func replicate(_ vBucket: Int) {
        for node in 0..<size {
            // Copies outside the chain are built slowly.
            let isInChain = latest.chain[vBucket].contains(node)
            if dice.oneIn(isInChain ? 2 : 8) { replicate(vBucket, to: node) }
        }
    }

    /// Some of the owners' messages reach a collector.
    private mutating func receive(_ node: Int, _ choice: Int) {
        for owner in 0..<size where choice >> owner & 1 == 0 {
            receive(owner, node, count: 1 + choice >> 4)
        }
    }

    /// One step of the orchestrator, or a failure.
    private mutating func changeCluster(_ node: Int, _ vBucket: Int, _ choice: Int) {
        switch choice {
        case 0..<70: moveOwner(vBucket, to: node)
        case 70..<108: addReplica(vBucket, node)
        case 108..<112: removeReplica(vBucket, node)
        case 112..<118: nodes[node].isSilent = true
        case 118..<144: for each in 0..<size where choice & 1 == 0 { nodes[each].isSilent = false }
        case 144..<148: restart(node)
        case 148..<184: for each in 0..<size where choice & 1 == 0 || each == node { start(each) }
        case 184..<214: failOver(node)
        case 214..<238: returnMember(node)
        case 238..<247: replaceNode(node)
        case 247..<248: for each in 0..<size { restart(each) }
        default: cutConnection(node, dice.below(size))
        }
    }
}
