/// One node's copy of the vBucket, and what the node knows around it.
struct Copy {
    enum Role {
        /// Does what its map says of a replica, or waits.
        case follows
        /// Chosen, checked its position, waits for the confirmation.
        case ready
        case active
        case handingOver
        /// Handed over: neither reads nor writes.
        case drained
    }

    var memory = Image()
    var disk = Image()
    /// Nothing of the disk's image lies on a history that was given up since.
    var isDiskCurrent = true
    /// The newest of the agreed maps that the node has applied.
    ///
    /// It survives a crash: after a start a node asks for the committed index before it does
    /// anything.
    var map = 0
    /// The fence of that map.
    var fence: Int32 = 1
    var role = Role.follows
    var isIntact = false
    var boot: Int32 = 0
    /// The fence whose active it takes nothing more from: on disk.
    var sealedAt: Int32 = 0
    /// The voters' promise that no other copy replaces it meanwhile.
    var hasLease = false

    // As a consumer.
    var streamFence: Int32 = 0
    var producer = 0
    var streamTarget: Int32 = 0
    var producerLog = BranchLog()
    var listed = Members()
    var snapshot = Snapshot()

    // As the active.
    var acknowledgedInMemory: [4 of Int32]
    var acknowledgedOnDisk: [4 of Int32]
    /// Which life of the replica said so.
    var acknowledgedBoot: [4 of Int32]
    var inherited = Members()
    var jointHigh: Int32 = -1

    init() {
        acknowledgedInMemory = .init(repeating: 0)
        acknowledgedOnDisk = .init(repeating: 0)
        acknowledgedBoot = .init(repeating: 0)
    }

    var isSealed: Bool { sealedAt >= fence }
    var believesToServe: Bool { role == .active || role == .handingOver }
    /// Serves by its own map, and is not sealed.
    var isServing: Bool { believesToServe && !isSealed }

    /// How far the disk has what counts today.
    var onDisk: Int32 { isDiskCurrent ? disk.covered : 0 }

    mutating func forgetAcknowledgements() {
        acknowledgedInMemory = .init(repeating: 0)
        acknowledgedOnDisk = .init(repeating: 0)
    }

    mutating func endStream() {
        streamFence = 0
        snapshot = Snapshot()
    }

    /// Back to what the disk has.
    mutating func crash() {
        boot += 1
        memory = disk
        isDiskCurrent = true
        role = .follows
        isIntact = false
        hasLease = false
        inherited = Members()
        jointHigh = -1
        endStream()
        forgetAcknowledgements()
    }
}

/// A run of changes on its way: the newest version of each key above its start, by seqno.
struct Snapshot {
    struct Item {
        var version = Version()
        var key: Int8 = 0
        var isPrepare = false
    }

    var isOpen = false
    var end: Int32 = 0
    var items: [4 of Item]
    var count = 0
    var next = 0
    /// The producer as it was, for the list of outstanding prepares, and for the checker.
    var value: [2 of Version]
    var prepare: [2 of Version]

    init() {
        items = .init(repeating: Item())
        value = .init(repeating: Version())
        prepare = .init(repeating: Version())
    }

    /// Puts an item in its place by seqno.
    mutating func insert(_ item: Item) {
        var place = count
        while place > 0, items[place - 1].version.seqno > item.version.seqno {
            items[place] = items[place - 1]
            place -= 1
        }
        items[place] = item
        count += 1
    }
}
