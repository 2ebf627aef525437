/// A node: its counter, its copies, its passes and index, and its collector.
struct SequenceNode {
    static let passesMax = 3
    /// Counters are reserved on disk in blocks of this size.
    static let block: Int32 = 4

    var isUp = true
    /// Neither sends to other nodes nor receives from them.
    var isSilent = false
    var standing = Standing()
    /// The revision that the node has applied.
    var map = 0
    private(set) var counter: Int32 = 0
    /// On disk: at or above every number that was drawn and every mark that was sent.
    private(set) var reserved: Int32 = 0
    /// By vBucket: the length of the copy.
    var high: [3 of Int16]
    var passes = Passes()
    /// The position of the newest released pass, and the one that the index has reached.
    var closed = Closing()
    var index = Closing()
    var collector = Collector()
    /// A number that a write has drawn before it is appended, and its key (a mistake).
    var drawn: (sequence: Int32, key: Int) = (0, 0)

    init() { high = .init(repeating: 0) }

    mutating func raise(to value: Int32) {
        counter = max(counter, value)
        if counter > reserved { reserved = counter + Self.block }
    }

    /// Draws the next number; the slot is the node's number.
    mutating func draw(slot: Int) -> Int32 {
        raise(to: counter + 1)
        return counter * SequenceWorld.slots + Int32(slot)
    }

    /// Restarts the counter from what the disk has.
    mutating func restartCounter(from value: Int32) {
        counter = value
        raise(to: value)
    }

    /// A new node with the slot of this one: no copies, no counter.
    mutating func becomeNew() {
        counter = 0
        reserved = 0
        high = .init(repeating: 0)
        index = Closing()
    }

    mutating func endProcess() {
        isUp = false
        standing.isServing = false
        standing.revision = -1
        passes = Passes()
        closed = Closing()
        drawn.sequence = 0
    }
}

/// Whether a node serves; if not, how far its handshake with the members is.
struct Standing {
    var isServing = true
    /// The node has served since it became a member.
    private(set) var hasServed = true
    /// The revision that every member must have applied; -1 if the node is not waiting.
    var revision: Int16 = -1
    var answered = Members()
    var highest: Int32 = 0

    mutating func beginHandshake(at revision: Int) {
        self = Standing()
        isServing = false
        hasServed = false
        self.revision = Int16(revision)
    }
}

/// The passes of a node that are not released, the oldest first.
struct Passes {
    private var passes: [3 of Pass]
    private(set) var count = 0

    init() { passes = .init(repeating: Pass()) }

    subscript(place: Int) -> Pass {
        get { passes[place] }
        set { passes[place] = newValue }
    }

    var isFull: Bool { count == SequenceNode.passesMax }

    mutating func append(_ pass: Pass) {
        passes[count] = pass
        count += 1
    }

    mutating func removeFirst() {
        count -= 1
        for place in 0..<count { passes[place] = passes[place + 1] }
    }

    /// A prepare at `prepare` ended at `place`: passes above the prepare contain its end.
    mutating func extend(_ vBucket: Int, over prepare: Int, to place: Int) {
        for pass in 0..<count where Int(passes[pass].closing.end[vBucket]) > prepare {
            passes[pass].closing.end[vBucket] = max(
                passes[pass].closing.end[vBucket],
                Int16(place + 1)
            )
        }
    }
}
