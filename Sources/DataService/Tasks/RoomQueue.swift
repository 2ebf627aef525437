/// Writes of one bucket that are too large for what is free, and how much room the pager has to make
/// for them.
///
/// The oldest write is served first. While one pass of the pager after the other does not free
/// enough for it, smaller writes leave it the room that comes free: without that a busy bucket would
/// never have so much free at once.
///
/// A machine: it has no clock, times are what the caller read, in monotonic nanoseconds.
///
/// - Waiting requests lie in receive buffers, so their bytes are bounded; one may always wait.
/// - No request waits longer than `timeoutNanoseconds`. What it asked for is remembered a little
///   longer, so that the client's retry finds the room.
package struct RoomQueue {
    package struct Waiter {
        package let id: UInt64
        /// What has to come free: the value, and what the change reads beside it.
        package let bytes: UInt64
        package let deadline: UInt64
        /// It is known that there can be room for it.
        package fileprivate(set) var isJudged = false
    }

    /// What the account of a bucket allows.
    package struct Bounds: Equatable {
        /// Writes are refused for now above this.
        package var ceiling: UInt64
        /// Where the pager rests when no write waits.
        package var lowWatermark: UInt64
        /// What other writes may use before the waiting one gets its turn.
        package var slack: UInt64
        /// Bytes that may wait at once.
        package var waitingMax: UInt64

        package init(
            ceiling: UInt64,
            lowWatermark: UInt64,
            slack: UInt64,
            waitingMax: UInt64
        ) {
            self.ceiling = ceiling
            self.lowWatermark = lowWatermark
            self.slack = slack
            self.waitingMax = waitingMax
        }
    }

    package private(set) var waiters: [Waiter] = []
    private var lastID: UInt64 = 0
    /// The last pass did not free enough for the first waiter.
    private var isShort = false
    /// The room that the write admitted last has to itself until it is stored.
    private var admitted: (bytes: UInt64, end: UInt64)?
    /// What a write that was refused asked for, until when.
    private var remembered: (bytes: UInt64, end: UInt64)?

    /// Clients of Couchbase give a write 2.5 s unless they are told otherwise.
    package static let timeoutNanoseconds: UInt64 = 2_000_000_000
    /// The longest pause that such clients make between two attempts is a second.
    package static let memoryNanoseconds: UInt64 = 5_000_000_000
    /// A reactor under load takes some milliseconds to come to a request that goes on.
    package static let admissionNanoseconds: UInt64 = 20_000_000

    package init() {}

    package var isEmpty: Bool { waiters.isEmpty }

    /// Adds a write; nil where too much waits already.
    package mutating func add(_ bytes: UInt64, now: UInt64, _ bounds: Bounds) -> UInt64? {
        let waiting = waiters.reduce(bytes) { $0 + $1.bytes }
        guard waiters.isEmpty || waiting <= bounds.waitingMax else {
            remember(bytes, now)
            return nil
        }
        lastID += 1
        let deadline = now + RoomQueue.timeoutNanoseconds
        waiters.append(Waiter(id: lastID, bytes: bytes, deadline: deadline))
        return lastID
    }

    private mutating func remember(_ bytes: UInt64, _ now: UInt64) {
        let largest = max(bytes, demand(now: now))
        remembered = (largest, now + RoomQueue.memoryNanoseconds)
    }

    /// What is to be free for the next write.
    private func demand(now: UInt64) -> UInt64 {
        if let first = waiters.first { return first.bytes }
        guard let remembered, now < remembered.end else { return 0 }
        return remembered.bytes
    }

    /// The bytes in use that the pager has to come down to.
    package func target(now: UInt64, _ bounds: Bounds) -> UInt64 {
        let demand = demand(now: now)
        guard demand > 0 else { return bounds.lowWatermark }
        let needed = demand + bounds.slack
        return min(bounds.lowWatermark, bounds.ceiling - min(bounds.ceiling, needed))
    }

    /// Bytes that smaller writes have to leave free.
    package func reserved(now: UInt64) -> UInt64 {
        if let admitted, now < admitted.end { return admitted.bytes }
        return isShort ? waiters.first?.bytes ?? 0 : 0
    }

    /// A write is admitted and not known to be stored yet.
    package func isAdmitting(now: UInt64) -> Bool { admitted.map { now < $0.end } ?? false }

    /// Removes the first write where there is room for it, and keeps that room for it.
    ///
    /// - Parameters:
    ///   - used: Bytes in use.
    ///   - now: The time.
    ///   - bounds: The account's.
    /// - Returns: The write's id; nil where none waits, where there is too little room, and while
    ///   the write before it may not be stored yet.
    package mutating func admit(used: UInt64, now: UInt64, _ bounds: Bounds) -> UInt64? {
        guard !isAdmitting(now: now), let first = waiters.first,
            used + first.bytes <= bounds.ceiling
        else { return nil }
        waiters.removeFirst()
        admitted = (first.bytes, now + RoomQueue.admissionNanoseconds)
        isShort = false
        return first.id
    }

    /// The write that was admitted last is over: its room is kept no longer.
    package mutating func endAdmission() { admitted = nil }

    /// Removes writes that have waited long enough.
    package mutating func expire(now: UInt64) -> [UInt64] {
        let late = waiters.filter { $0.deadline <= now }
        for waiter in late { remember(waiter.bytes, now) }
        remove(late)
        return late.map(\.id)
    }

    /// Removes writes that there can never be room for, beside `floor` bytes that always stay.
    package mutating func judge(floor: UInt64, _ bounds: Bounds) -> [UInt64] {
        let hopeless = waiters.filter { floor + $0.bytes > bounds.ceiling }
        remove(hopeless)
        for index in waiters.indices { waiters[index].isJudged = true }
        return hopeless.map(\.id)
    }

    /// Removes all writes, for a bucket that goes.
    package mutating func removeAll() -> [UInt64] {
        defer { self = RoomQueue() }
        return waiters.map(\.id)
    }

    private mutating func remove(_ gone: [Waiter]) {
        guard !gone.isEmpty else { return }
        let ids = Set(gone.map(\.id))
        if let first = waiters.first, ids.contains(first.id) { isShort = false }
        waiters.removeAll { ids.contains($0.id) }
    }

    /// A pass of the pager ended above the target.
    package mutating func notePassWasShort() { isShort = !waiters.isEmpty }

    /// The pager came down to the target: what was asked for and refused can be stored now.
    package mutating func noteTargetReached() { remembered = nil }
}
