internal import Bytes

/// One direction of a connection: bytes in flight, in order, and the backlog that waits for window
/// space.
final class SimulatedStream {
    /// The receiving end; both ends retain each other until both are gone.
    private(set) var target: SimulatedConnection?
    var lastArrival: UInt64 = 0
    private let simulator: PacketSimulator
    private var link: NetworkLink?
    private var back: NetworkLink?
    private var inFlight = 0
    private let backlog = ByteWriter(capacity: 16)
    private var hasEnded = false
    /// Incremented whenever backlog is sent, to detect a reader that makes no progress.
    private var progress: UInt64 = 0
    private var watched: UInt64?

    init(simulator: PacketSimulator) {
        self.simulator = simulator
    }

    var hasBacklog: Bool { backlog.count > 0 }

    func lead(to target: SimulatedConnection, link: NetworkLink, back: NetworkLink) {
        self.target = target
        self.link = link
        self.back = back
    }

    // MARK: Sending

    func send(_ view: ByteView) {
        guard view.count > 0 else { return }
        let count = hasBacklog ? 0 : min(view.count, room)
        if count > 0 { transmit(view.slice(0, count)) }
        guard count < view.count else { return }
        backlog.append(view.dropFirst(count))
        watchBacklog()
    }

    func sendBacklog() {
        let count = min(backlog.count, room)
        guard count > 0 else { return }
        progress += 1
        transmit(backlog.view.slice(0, count))
        backlog.removeFirst(count)
        if hasBacklog { watchBacklog() }
    }

    private var room: Int {
        max(0, simulator.windowBytes - inFlight - (target?.arrived.count ?? 0))
    }

    /// Sends bytes in pieces that arrive separately; mostly in one piece.
    private func transmit(_ view: ByteView) {
        guard let link, let target else { return }
        var rest = view
        while rest.count > 0 {
            let dice = simulator.draw()
            let isCut = rest.count > 1 && dice & 7 == 0
            let count = isCut ? 1 + Int((dice >> 8) % UInt64(rest.count - 1)) : rest.count
            let bytes = rest.slice(0, count).bytes
            rest = rest.dropFirst(count)
            inFlight += count
            lastArrival = simulator.carry(count, on: link, after: lastArrival) { [self] in
                inFlight -= count
                simulator.queue.fold(UInt64(count))
                target.bytesArrived(bytes)
            }
        }
    }

    /// The receiving end read bytes from its buffer: notifies a sender that waits for window space.
    func roomOpened() {
        guard hasBacklog, let back, let sender = target?.outgoing.target else { return }
        simulator.carry(60, on: back) { sender.roomAvailable() }
    }

    /// Closes the connection if the backlog makes no progress for `slowReaderNanoseconds`.
    private func watchBacklog() {
        guard watched != progress || watched == nil else { return }
        watched = progress
        let (seen, time) = (progress, simulator.queue.time)
        time.add(
            at: time.now + PacketSimulator.slowReaderNanoseconds,
            .happen { [weak self] in
                guard let self, hasBacklog, progress == seen else { return }
                target?.outgoing.target?.close()
            }
        )
    }

    // MARK: The end

    /// Sends the end of the stream after all bytes.
    func end() {
        guard !hasEnded, let link, let target else { return }
        hasEnded = true
        lastArrival = simulator.carry(60, on: link, after: lastArrival) { target.endArrived() }
    }

    /// Resets the other end, which loses its unread bytes.
    func reset() {
        guard let link, let target else { return }
        simulator.carry(60, on: link) { target.resetArrived() }
    }

    /// Ends the stream because the sending end is gone; sends nothing if `isSilent`.
    func leave(isSilent: Bool, isReset: Bool) {
        let isCut = isReset || hasBacklog
        backlog.removeAll(keepingAtMost: 16)
        if !isSilent {
            if isCut { reset() } else { end() }
        }
        if target?.phase == .gone {
            let other = target
            target = nil
            other?.outgoing.forget()
        }
    }

    fileprivate func forget() { target = nil }
}
