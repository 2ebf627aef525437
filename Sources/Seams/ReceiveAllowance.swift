/// The bounds of what one connection receives.
package struct ReceiveSizes: Sendable {
    /// Bytes that are read at a time into memory that the connections of a reactor share.
    package var readBytes: Int
    /// Bytes that a connection holds outside the node's bound.
    package var ownBytes: Int
    /// Bytes that a connection holds at most: the largest frame, its header, and some.
    package var heldBytesMax: Int
    /// The timeout after which a sender without progress is closed, if more than `ownBytes` are held
    /// for it.
    package var stalledNanoseconds: UInt64

    package init(
        readBytes: Int,
        ownBytes: Int,
        heldBytesMax: Int,
        stalledNanoseconds: UInt64
    ) {
        self.readBytes = readBytes
        self.ownBytes = ownBytes
        self.heldBytesMax = heldBytesMax
        self.stalledNanoseconds = stalledNanoseconds
    }

    /// The node's memory for received bytes, by these sizes.
    ///
    /// - Parameters:
    ///   - bytesMax: The bound.
    ///   - reactors: How many connections may be read at the same time.
    /// - Returns: Unused memory.
    package func memory(_ bytesMax: Int, reactors: Int) -> ReceiveMemory {
        ReceiveMemory(
            bytesMax: bytesMax,
            claimBytesMax: heldBytesMax,
            readAheadBytes: reactors * max(0, readBytes - ownBytes)
        )
    }
}

/// The next action of a connection that has bytes to read.
package enum ReceiveStep: Equatable, Sendable {
    /// Read at most this many bytes after the held ones, into the reactor's memory.
    case readShared(Int)
    /// Grow the connection's own buffer to this capacity, and read at most this many bytes into it.
    case readOwn(capacity: Int, most: Int)
    /// Claim this many bytes of the node's memory first.
    case claim(Int)
    /// The frame exceeds all bounds: close the connection.
    case refuse
}

/// The received bytes that one connection holds, and the bytes that it may receive next.
///
/// Both platforms' connections act on it, so that they read, wait and close alike. A connection that
/// is exempt (no `memory`) is bounded by `heldBytesMax` alone.
package struct ReceiveAllowance {
    /// Bytes of a large frame that are read at a time: other connections wait meanwhile.
    package static let largeReadBytes = 1 << 20

    private let fullSizes: ReceiveSizes
    private var sizes: ReceiveSizes
    /// The memory that the connection shares with others; nil where it is exempt.
    package let memory: ConnectionMemory?
    /// Nil until the connection needs more than its own bytes.
    private var holder: ReceiveMemory.Holder?
    /// Bytes of the node's memory that the connection holds.
    package private(set) var share = 0
    /// A claim waits for memory: the connection is not read.
    package private(set) var isWaiting = false
    /// Held bytes when the claim was made.
    private var countWhenClaimed = 0
    /// The total size that the handler needs to continue; 0 if it is unknown.
    package private(set) var needed = 0
    private var pace: SenderPace
    /// For a platform that sets a timer for each connection: whether it has.
    package var isTimerSet = false

    /// The allowance of a new connection.
    ///
    /// - Parameters:
    ///   - sizes: The bounds of a client that has logged in, or of a node.
    ///   - memory: What the connection shares with others; nil if it is exempt.
    ///   - isStranger: Whether the client has not logged in yet.
    package init(_ sizes: ReceiveSizes, memory: ConnectionMemory?, isStranger: Bool = false) {
        fullSizes = sizes
        self.sizes = sizes
        self.memory = memory
        pace = SenderPace(timeoutNanoseconds: sizes.stalledNanoseconds)
        setStranger(isStranger)
    }

    /// Whether the connection has the bounds of a client without a login.
    package private(set) var isStranger = false

    /// Sets the bounds of a client that has no login, or the usual ones.
    package mutating func setStranger(_ isStranger: Bool) {
        guard isStranger != self.isStranger else { return }
        self.isStranger = isStranger
        sizes = fullSizes
        guard isStranger else { return }
        // A whole frame of the largest size, and the header of the next one.
        let bytes = LoginWatch.inputBytesMax + LoginWatch.headerBytes
        sizes.readBytes = min(bytes, sizes.readBytes)
        sizes.ownBytes = min(bytes, sizes.ownBytes)
        sizes.heldBytesMax = min(bytes, sizes.heldBytesMax)
    }

    /// Bytes that the connection may hold now.
    private var held: Int { memory == nil ? sizes.heldBytesMax : sizes.ownBytes + share }

    // MARK: Reading

    /// Decides the next action for bytes that can be read.
    ///
    /// - Parameters:
    ///   - count: Bytes that are held: received and not consumed by the handler.
    ///   - capacity: Bytes that the connection's own buffer has room for, `count` included.
    /// - Returns: The next action.
    package func step(count: Int, capacity: Int) -> ReceiveStep {
        guard count < sizes.heldBytesMax, needed <= sizes.heldBytesMax else { return .refuse }
        let allowsReadAhead = memory?.allowsReadAhead ?? true
        let room = allowsReadAhead ? sizes.readBytes : min(sizes.readBytes, held)
        // A short rest is put in front of the new bytes, so that a pipeline cut in the middle of a
        // frame continues in the large buffer. A large frame grows in a buffer of its own.
        if count <= room / 2 && needed <= room { return .readShared(room - count) }
        let isIncomplete = count < needed
        let wanted =
            isIncomplete
            ? needed : count < capacity ? capacity : min(sizes.heldBytesMax, 2 * count)
        let granted = min(wanted, held)
        if count < granted {
            let most = min(ReceiveAllowance.largeReadBytes, granted - count)
            return .readOwn(capacity: granted, most: most)
        }
        // If the length is unknown, claim the largest frame: growing claims of several connections
        // could wait for each other.
        return .claim((isIncomplete ? needed : sizes.heldBytesMax) - sizes.ownBytes)
    }

    /// Counts bytes that were read.
    package mutating func received(_ bytes: Int) { pace.received(bytes) }

    /// Claims the memory that `step` returned.
    ///
    /// - Parameters:
    ///   - bytes: As in `ReceiveStep.claim`.
    ///   - count: Bytes that are held.
    ///   - granted: Called once, on any thread, when a claim that had to wait is granted; the
    ///     connection then calls `update`.
    /// - Returns: Whether the connection may continue to read.
    package mutating func claim(
        _ bytes: Int,
        count: Int,
        granted: @escaping @Sendable () -> Void
    ) -> Bool {
        guard let memory else { return true }
        isWaiting = !memory.claim(bytes, for: makeHolder(memory), granted: granted)
        if isWaiting { countWhenClaimed = count } else { share = bytes }
        return !isWaiting
    }

    /// Records that a waiting claim was granted.
    package mutating func update() {
        guard let memory, let holder else { return }
        (share, isWaiting) = memory.share(of: holder)
    }

    // MARK: After the handler

    /// Counts the bytes that the handler left.
    ///
    /// - Parameters:
    ///   - count: Bytes that it did not consume.
    ///   - consumed: Bytes that it consumed.
    ///   - needed: The total size that it needs; 0 if it is unknown.
    package mutating func chargeReceived(count: Int, consumed: Int, needed: Int) {
        // A handler that another event woke inside a frame does not read the frame. Keep the frame's
        // length and its memory.
        if consumed > 0 || needed > 0 { self.needed = needed }
        guard share > 0 || isWaiting || count > sizes.ownBytes else { return }
        chargeShare(count)
    }

    private mutating func chargeShare(_ count: Int) {
        guard let memory else { return }
        // A wakeup consumed nothing: the claim keeps its place in the queue.
        if isWaiting && count == countWhenClaimed { return }
        let isIncomplete = needed > count && needed <= sizes.heldBytesMax
        let frameShare = max(0, needed - sizes.ownBytes)
        let holder = makeHolder(memory)
        if isIncomplete, !isWaiting {
            if frameShare <= share, frameShare > 0 { return hold(frameShare, holder, in: memory) }
            if count > sizes.ownBytes, memory.tryClaim(frameShare, for: holder) {
                share = frameShare
                return
            }
        }
        // The bytes are received already, so they are counted even above the bound.
        hold(max(0, count - sizes.ownBytes), holder, in: memory)
    }

    private mutating func hold(
        _ bytes: Int,
        _ holder: ReceiveMemory.Holder,
        in memory: ConnectionMemory
    ) {
        guard bytes != share || isWaiting else { return }
        share = bytes
        isWaiting = false
        memory.hold(bytes, by: holder)
    }

    /// The best capacity of a buffer for `count` bytes: the whole frame if its memory is granted.
    package func capacity(for count: Int) -> Int {
        let isLarge = needed > sizes.readBytes && needed <= held
        return isLarge ? max(needed, count) : count
    }

    /// The largest capacity of the connection's buffer.
    package var capacityMax: Int { held }

    /// Returns all memory when the connection ends.
    package mutating func end() {
        guard let memory, let holder else { return }
        self.holder = nil
        share = 0
        isWaiting = false
        memory.hold(0, by: holder)
    }

    private mutating func makeHolder(_ memory: ConnectionMemory) -> ReceiveMemory.Holder {
        if let holder { return holder }
        let made = memory.makeHolder()
        holder = made
        return made
    }

    // MARK: Senders that stall

    /// Whether the platform has to check `isStalled` from time to time.
    package var isTimed: Bool { share > 0 }

    /// Whether the sender occupies memory without progress.
    ///
    /// - Parameters:
    ///   - now: Monotonic nanoseconds.
    ///   - isAwaited: Whether the connection is ready to read and nothing has come.
    /// - Returns: Whether to close the connection.
    package mutating func isStalled(at now: UInt64, isAwaited: Bool) -> Bool {
        guard let memory, share > 0 else {
            pace = SenderPace(timeoutNanoseconds: sizes.stalledNanoseconds)
            return false
        }
        return pace.isStalled(
            at: now,
            isAwaited: isAwaited && !isWaiting,
            isShort: !memory.allowsReadAhead
        )
    }
}
