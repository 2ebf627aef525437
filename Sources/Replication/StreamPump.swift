package import Vocabulary

/// Which stream of a connection sends next, and how many bytes.
///
/// - Streams are served round-robin, each with at most `turnBytes` at a time.
/// - A window bounds the unacknowledged bytes of its streams. A stream without credit waits until the
///   window has room. A stream that reads from disk reserves the credit that its result may use.
/// - At most `admittedMax` streams are admitted at a time: from their first step until they rest
///   outside a snapshot. Admitted streams come first, the last one that was stepped before all others.
package struct StreamPump: Sendable {
    /// A stream; not equal to any later one.
    package struct Handle: Hashable, Sendable {
        /// The index of the stream's slot, from 0; `remove` frees the slot.
        package let index: Int
        /// A number from 1 that no other stream gets.
        package let number: UInt64
    }

    private struct Slot {
        let number: UInt64
        let window: Int
        var isQueued = false
        var isStarved = false
        var isAdmitted = false
        var reserved = 0
    }

    private struct Window {
        var flow: FlowWindow
        /// Streams that wait for room.
        var starved: [Handle] = []
    }

    package let turnBytes: Int
    package var admittedMax: Int
    private var admittedCount = 0
    private var slots: [Slot?] = []
    private var freeSlots: [Int] = []
    private var lastNumber: UInt64 = 0
    private var windows: [Window] = []
    /// Queued streams that are admitted.
    private var admitted: [Handle] = []
    /// Queued streams that are not, from `firstWaiting` on.
    private var waiting: [Handle] = []
    private var firstWaiting = 0

    /// - Parameters:
    ///   - turnBytes: The maximal credit of one step.
    ///   - admittedMax: How many streams may be admitted; nil for no bound.
    package init(turnBytes: Int, admittedMax: Int? = nil) {
        self.turnBytes = turnBytes
        self.admittedMax = admittedMax ?? .max
    }

    // MARK: Windows

    /// Adds a window.
    ///
    /// - Parameter bytesMax: Its bound of unacknowledged bytes; nil for none.
    /// - Returns: Its number, from 0.
    package mutating func addWindow(bytesMax: Int?) -> Int {
        windows.append(Window(flow: FlowWindow(bytesMax: bytesMax)))
        return windows.count - 1
    }

    package func window(_ number: Int) -> FlowWindow { windows[number].flow }

    /// Forgets what was sent and reserved in a window, whose consumer begins anew.
    package mutating func renewWindow(_ number: Int) {
        windows[number].flow = FlowWindow(bytesMax: windows[number].flow.bytesMax)
        feedStarved(number)
    }

    /// Changes a window's bound; nil for none.
    package mutating func setWindow(_ number: Int, bytesMax: Int?) {
        windows[number].flow.bytesMax = bytesMax
        feedStarved(number)
    }

    /// Counts bytes that were sent besides the streams' steps.
    package mutating func recordSent(_ bytes: Int, window number: Int) {
        windows[number].flow.sent(bytes)
    }

    /// Subtracts acknowledged bytes; false if more were acknowledged than sent.
    package mutating func acknowledge(_ bytes: Int, window number: Int) -> Bool {
        let isPossible = windows[number].flow.acknowledged(bytes)
        feedStarved(number)
        return isPossible
    }

    private mutating func feedStarved(_ number: Int) {
        guard windows[number].flow.room > 0 else { return }
        let streams = windows[number].starved
        windows[number].starved = []
        for stream in streams where slot(stream) != nil {
            slots[stream.index]?.isStarved = false
            wake(stream)
        }
    }

    // MARK: Streams

    /// The number of the stream that is added next.
    package var nextNumber: UInt64 { lastNumber + 1 }

    /// Adds a stream, which may have work.
    package mutating func add(window: Int) -> Handle {
        lastNumber += 1
        let handle = Handle(index: freeSlots.popLast() ?? slots.count, number: lastNumber)
        if handle.index == slots.count { slots.append(nil) }
        slots[handle.index] = Slot(number: lastNumber, window: window)
        wake(handle)
        return handle
    }

    /// Removes a stream and ends its reservation, unless it was removed before.
    package mutating func remove(_ handle: Handle) {
        guard let slot = slot(handle) else { return }
        dismiss(handle.index)
        // A client that opens and closes streams without credit leaves none behind.
        if slot.isStarved { windows[slot.window].starved.removeAll { $0 == handle } }
        slots[handle.index] = nil
        freeSlots.append(handle.index)
        windows[slot.window].flow.release(slot.reserved)
        if slot.reserved > 0 { feedStarved(slot.window) }
    }

    /// Queues a stream that may have work, unless it is queued or was removed.
    package mutating func wake(_ handle: Handle) {
        guard let slot = slot(handle), !slot.isQueued else { return }
        slots[handle.index]?.isQueued = true
        if slot.isAdmitted { admitted.append(handle) } else { waiting.append(handle) }
    }

    /// Whether `next` returns a stream.
    package var hasWork: Bool {
        !admitted.isEmpty || (firstWaiting < waiting.count && admittedCount < admittedMax)
    }

    /// Takes the stream to step next; `finish` has to follow.
    package mutating func next() -> Handle? {
        while let stream = admitted.popLast() {
            if dequeue(stream) { return stream }
        }
        while firstWaiting < waiting.count, admittedCount < admittedMax {
            let stream = waiting[firstWaiting]
            firstWaiting += 1
            // Taken streams are removed in blocks: a removal at the front moves all others.
            if firstWaiting == waiting.count || firstWaiting >= 1_024 {
                waiting.removeFirst(firstWaiting)
                firstWaiting = 0
            }
            guard dequeue(stream) else { continue }
            if admittedMax < .max {
                slots[stream.index]?.isAdmitted = true
                admittedCount += 1
            }
            return stream
        }
        return nil
    }

    /// The bytes that the stream may send in its next step.
    package func credit(of handle: Handle) -> Int {
        guard let slot = slot(handle) else { return 0 }
        return min(windows[slot.window].flow.room, turnBytes)
    }

    /// Ends the turn of a stream that `next` returned.
    ///
    /// A stream that is over is removed.
    ///
    /// - Parameters:
    ///   - handle: The stream.
    ///   - progress: The outcome of its step.
    ///   - credit: The credit that the step had.
    ///   - sent: The bytes that it sent.
    ///   - isReading: Whether a read from disk is under way whose result is sent whatever the credit is
    ///     then.
    ///   - isBusy: Whether the stream is inside a snapshot.
    package mutating func finish(
        _ handle: Handle,
        _ progress: StreamProgress,
        credit: Int,
        sent: Int,
        isReading: Bool,
        isBusy: Bool = false
    ) {
        guard let slot = slot(handle) else { return }
        windows[slot.window].flow.sent(sent)
        if !isReading, slot.reserved > 0 {
            windows[slot.window].flow.release(slot.reserved)
            slots[handle.index]?.reserved = 0
            feedStarved(slot.window)
        } else if isReading, slot.reserved == 0 {
            windows[slot.window].flow.reserve(credit)
            slots[handle.index]?.reserved = credit
        }
        if !isBusy { dismiss(handle.index) }
        switch progress {
        case .again: wake(handle)
        case .asleep: break
        case .awaitsCredit:
            if !slot.isStarved { windows[slot.window].starved.append(handle) }
            slots[handle.index]?.isStarved = true
        case .over: remove(handle)
        }
    }

    // MARK: Implementation

    private func slot(_ handle: Handle) -> Slot? {
        guard let slot = slots[handle.index], slot.number == handle.number else { return nil }
        return slot
    }

    /// Removes a stream from the queue; false if it was removed from the pump.
    private mutating func dequeue(_ handle: Handle) -> Bool {
        guard slot(handle) != nil else { return false }
        slots[handle.index]?.isQueued = false
        return true
    }

    private mutating func dismiss(_ index: Int) {
        guard slots[index]?.isAdmitted == true else { return }
        slots[index]?.isAdmitted = false
        admittedCount -= 1
    }
}
