/// One node's copy of the vBucket, and the state of the node that concerns it.
struct Copy {
    enum Role {
        /// A replica by the applied map, or waiting to become active.
        case follows
        /// Promoted; has checked its position and waits for the confirmation.
        case ready
        case active
        case handingOver
        /// Has handed over: serves neither reads nor writes.
        case drained
    }

    var memory = Image()
    var disk = Image()
    /// The image on disk contains no history that the copy has discarded in memory.
    var isDiskCurrent = true
    /// The newest of the agreed maps that the node has applied.
    ///
    /// It survives a crash: a restarted node queries the committed index before any other step.
    var map = 0
    /// The fence of that map.
    var fence: Int32 = 1
    var role = Role.follows
    var isIntact = false
    var boot: Int32 = 0
    /// The fence under which the copy was sealed, so that it accepts no changes from that fence's
    /// active copy; on disk.
    var sealedAt: Int32 = 0
    /// The voters have promised that they do not depose this copy before its lease expires.
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
    /// The boot number of the replica when it acknowledged.
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

    /// The covered seqno on disk; 0 if the disk has a discarded history.
    var onDisk: Int32 { isDiskCurrent ? disk.covered : 0 }

    mutating func forgetAcknowledgements() {
        acknowledgedInMemory = .init(repeating: 0)
        acknowledgedOnDisk = .init(repeating: 0)
    }

    mutating func endStream() {
        streamFence = 0
        snapshot = Snapshot()
    }

    /// Restarts the copy from its disk.
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

/// A snapshot that is being received: the newest version of each key above its start, by seqno.
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
    /// The producer's content at the snapshot's end, for the list of outstanding prepares and for
    /// the checker.
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
