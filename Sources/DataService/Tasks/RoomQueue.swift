/// The writes of one bucket that are too large for the free memory, and how much room the pager has
/// to make for them.
///
/// The oldest write is served first. If a pass of the pager does not free enough for it, smaller
/// writes have to leave the freed room to it: otherwise a busy bucket would never have so much free
/// at once.
///
/// A machine without a clock: times are arguments, in monotonic nanoseconds.
///
/// - Waiting requests occupy receive buffers, so their bytes are bounded; one may always wait.
/// - No request waits longer than `timeoutNanoseconds`. Its size is remembered a little longer, so
///   that the client's retry finds the room.
package struct RoomQueue {
    package struct Waiter {
        package let id: UInt64
        /// The bytes that have to become free: the value, and what the change reads.
        package let bytes: UInt64
        package let deadline: UInt64
        /// Whether the census has found that the bucket can make room for the write.
        package fileprivate(set) var isDecided = false
    }

    /// The bounds of a bucket's memory account, in bytes.
    package struct Bounds: Equatable {
        /// Above this, the bucket refuses writes with a temporary failure.
        package var ceiling: UInt64
        /// The target of the pager when no write waits.
        package var lowWatermark: UInt64
        /// The margin for other writes until the waiting one is stored.
        package var slack: UInt64
        /// The bytes of all requests that may wait.
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
    /// Whether the pager's last pass did not free enough for the first waiter.
    private var isShort = false
    /// The reservation of the last admitted write, until it is stored or the time ends.
    private var admitted: (bytes: UInt64, end: UInt64)?
    /// The largest size of the refused writes, kept until `end` for a retry.
    private var remembered: (bytes: UInt64, end: UInt64)?

    /// The default timeout of Couchbase's clients for a write is 2.5 s.
    package static let timeoutNanoseconds: UInt64 = 2_000_000_000
    /// The longest delay of such clients between two attempts is a second.
    package static let memoryNanoseconds: UInt64 = 5_000_000_000
    /// A reactor under load needs some milliseconds until it resumes a request.
    package static let admissionNanoseconds: UInt64 = 20_000_000

    package init() {}

    package var isEmpty: Bool { waiters.isEmpty }

    /// Adds a write.
    ///
    /// - Returns: Its id; nil if too many bytes wait already.
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

    /// The bytes to keep free for the next write.
    private func demand(now: UInt64) -> UInt64 {
        if let first = waiters.first { return first.bytes }
        guard let remembered, now < remembered.end else { return 0 }
        return remembered.bytes
    }

    /// The bytes in use at which the pager may rest.
    package func target(now: UInt64, _ bounds: Bounds) -> UInt64 {
        let demand = demand(now: now)
        guard demand > 0 else { return bounds.lowWatermark }
        let needed = demand + bounds.slack
        return min(bounds.lowWatermark, bounds.ceiling - min(bounds.ceiling, needed))
    }

    /// The bytes that smaller writes have to leave free.
    package func reserved(now: UInt64) -> UInt64 {
        if let admitted, now < admitted.end { return admitted.bytes }
        return isShort ? waiters.first?.bytes ?? 0 : 0
    }

    /// Whether a write was admitted that may not be stored yet.
    package func isAdmitting(now: UInt64) -> Bool { admitted.map { now < $0.end } ?? false }

    /// Removes the first write if there is room for it, and reserves that room.
    ///
    /// - Parameters:
    ///   - used: The bytes in use.
    ///   - now: The time.
    ///   - bounds: The account's bounds.
    /// - Returns: The write's id; nil if none waits, if there is too little room, and while the
    ///   previous write may not be stored yet.
    package mutating func admit(used: UInt64, now: UInt64, _ bounds: Bounds) -> UInt64? {
        guard !isAdmitting(now: now), let first = waiters.first,
            used + first.bytes <= bounds.ceiling
        else { return nil }
        waiters.removeFirst()
        admitted = (first.bytes, now + RoomQueue.admissionNanoseconds)
        isShort = false
        return first.id
    }

    /// Ends the reservation of the last admitted write.
    package mutating func endAdmission() { admitted = nil }

    /// Removes writes whose timeout has passed.
    ///
    /// - Returns: Their ids; empty if there are none.
    package mutating func expire(now: UInt64) -> [UInt64] {
        let late = waiters.filter { $0.deadline <= now }
        for waiter in late { remember(waiter.bytes, now) }
        remove(late)
        return late.map(\.id)
    }

    /// Removes writes that can never fit beside `floor` bytes that always stay.
    ///
    /// - Returns: Their ids; empty if there are none.
    package mutating func decide(floor: UInt64, _ bounds: Bounds) -> [UInt64] {
        let hopeless = waiters.filter { floor + $0.bytes > bounds.ceiling }
        remove(hopeless)
        for index in waiters.indices { waiters[index].isDecided = true }
        return hopeless.map(\.id)
    }

    /// Removes all writes of a bucket that closes.
    ///
    /// - Returns: Their ids.
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

    /// Notes that a pass of the pager ended above the target.
    package mutating func recordShortPass() { isShort = !waiters.isEmpty }

    /// Notes that the pager reached the target: the refused write can be stored now.
    package mutating func forgetRemembered() { remembered = nil }
}
