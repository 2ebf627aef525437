internal import Bytes
internal import Seams
internal import Wire

/// A received frame, with its own copy of the payload.
struct ReceivedPeerFrame: Sendable {
    let kind: UInt16
    let call: UInt64
    let payload: [UInt8]
}

/// Frames in both directions over one connection; the inner handler of `control`, `join` and
/// `epoch`.
///
/// Any thread queues frames; the reactor sends them together in its next turn, urgent frames first.
/// The frames received in one turn are passed to the lane together.
///
/// - Bounded: a frame that does not fit into the queue is refused, and while the lane is behind
///   nothing is read.
/// - Pings are answered on the reactor: they check the process, not the lane.
final class PeerChannel: ConnectionHandler,
    @unchecked Sendable  // tidy:allow its queues are locked, the rest belongs to one reactor
{
    /// Asks whether the process is alive; users' kinds lie between this and `notHandledKind`.
    static let pingKind: UInt16 = 0
    /// With the answer bit: the receiver has no handler for the call's kind.
    static let notHandledKind: UInt16 = 0x7fff

    typealias Arrived = @Sendable ([ReceivedPeerFrame]) -> Void

    private struct State {
        var urgent: [ReceivedPeerFrame] = []
        var bulk: [ReceivedPeerFrame] = []
        var bulkSent = 0
        var queuedBytes = 0
        /// Frames that the lane has not handled yet.
        var inboxBytes = 0
        var isPaused = false
        var isWoken = false
        var isClosed = false
        var heardAt: UInt64
    }

    let port: any PeerPort
    private let lane: any Lane
    private let time: any TimeSource
    private let limits: PeerLimits
    private let arrived: Arrived
    private let ended: @Sendable () -> Void
    private let state: Guarded<State>
    private let decoder = PeerFrameDecoder()

    /// A channel over `port`; `arrived` and `ended` are called on `lane`.
    init(
        over port: any PeerPort,
        lane: any Lane,
        time: any TimeSource,
        limits: PeerLimits,
        arrived: @escaping Arrived,
        ended: @escaping @Sendable () -> Void
    ) {
        self.port = port
        self.lane = lane
        self.time = time
        self.limits = limits
        self.arrived = arrived
        self.ended = ended
        state = Guarded(State(heardAt: time.monotonicNanoseconds()))
    }

    // MARK: Called from any thread

    /// Queues a frame; false if the queue is full or the connection is closed.
    func enqueue(_ frame: ReceivedPeerFrame, isBulk: Bool? = nil) -> Bool {
        let count = PeerFrame.headerCount + frame.payload.count
        let (isTaken, mustWake) = state.withLock { state in
            guard !state.isClosed, state.queuedBytes + count <= limits.queueBytesMax else {
                return (false, false)
            }
            state.queuedBytes += count
            if isBulk ?? (frame.payload.count > limits.urgentBytesMax) {
                state.bulk.append(frame)
            } else {
                state.urgent.append(frame)
            }
            let mustWake = !state.isWoken
            state.isWoken = true
            return (true, mustWake)
        }
        if mustWake { port.wake() }
        return isTaken
    }

    /// When bytes last arrived from the other side, in monotonic nanoseconds.
    var heardAt: UInt64 { state.withLock { $0.heardAt } }

    var queuedBytes: Int { state.withLock { $0.queuedBytes } }

    func close() { port.close() }

    /// The lane has handled frames of `bytes` bytes: reading continues if it was paused.
    private func delivered(_ bytes: Int) {
        let mustWake = state.withLock { state in
            state.inboxBytes -= bytes
            let mustWake = state.isPaused && state.inboxBytes <= limits.queueBytesMax / 2
            if mustWake { state.isPaused = false }
            return mustWake
        }
        if mustWake { port.wake() }
    }

    // MARK: Called by the reactor

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        serve(input, output)
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress { serve(input, output) }

    func closed() {
        state.withLock { state in
            state.isClosed = true
            state.urgent = []
            state.bulk = []
        }
        lane.post { [ended] in ended() }
    }

    private func serve(_ input: ByteView, _ output: ByteWriter) -> ReceiveProgress {
        let taken = receiveFrames(input, output)
        guard let taken else { return ReceiveProgress(consumed: input.count, next: .close) }
        let hasMore = send(output)
        if hasMore { return ReceiveProgress(consumed: taken.consumed, next: .drain) }
        let isPaused = state.withLock { $0.isPaused }
        return ReceiveProgress(
            consumed: taken.consumed,
            next: isPaused ? .pause : .receive,
            needed: isPaused ? 0 : taken.needed
        )
    }

    /// Passes complete frames to the lane; nil if the stream contains an invalid frame.
    private func receiveFrames(_ input: ByteView, _ output: ByteWriter) -> (
        consumed: Int, needed: Int
    )? {
        if state.withLock({ $0.isPaused }) { return (0, 0) }
        var consumed = 0
        var frames: [ReceivedPeerFrame] = []
        var needed = 0
        scan: while true {
            switch decoder.next(in: input.dropFirst(consumed)) {
            case .invalid: return nil
            case .incomplete(let missing):
                needed = missing
                break scan
            case .frame(let frame):
                consumed += frame.byteCount
                if frame.kind == PeerChannel.pingKind {
                    let pong = PeerFrame.answerBit
                    PeerFrame.append(kind: pong, call: frame.call, payload: .empty, to: output)
                } else if frame.kind != PeerFrame.answerBit {
                    let payload = frame.payload.bytes
                    frames.append(.init(kind: frame.kind, call: frame.call, payload: payload))
                }
            }
        }
        let now = time.monotonicNanoseconds()
        let bytes = consumed
        state.withLock { state in
            if bytes > 0 { state.heardAt = now }
            guard !frames.isEmpty else { return }
            state.inboxBytes += bytes
            state.isPaused = state.inboxBytes > limits.queueBytesMax
        }
        if !frames.isEmpty {
            lane.post { [frames] in
                self.arrived(frames)
                self.delivered(bytes)
            }
        }
        return (consumed, needed)
    }

    /// Appends queued frames, at most one turn's worth; true if frames are left.
    private func send(_ output: ByteWriter) -> Bool {
        state.withLock { state in
            for frame in state.urgent { PeerChannel.append(frame, to: output) }
            state.urgent.removeAll(keepingCapacity: state.urgent.count < 1_024)
            let start = output.count
            while state.bulkSent < state.bulk.count,
                output.count - start < limits.bulkBytesPerTurn
            {
                PeerChannel.append(state.bulk[state.bulkSent], to: output)
                state.bulkSent += 1
            }
            if state.bulkSent == state.bulk.count || state.bulkSent >= 64 {
                state.bulk.removeFirst(state.bulkSent)
                state.bulkSent = 0
            }
            state.queuedBytes = state.bulk[state.bulkSent...]
                .reduce(0) { $0 + PeerFrame.headerCount + $1.payload.count }
            let hasMore = state.bulkSent < state.bulk.count
            // Until the queue is empty, the reactor calls again without a wakeup.
            state.isWoken = hasMore
            return hasMore
        }
    }

    private static func append(_ frame: ReceivedPeerFrame, to output: ByteWriter) {
        frame.payload.withUnsafeBytes {
            PeerFrame.append(
                kind: frame.kind,
                call: frame.call,
                payload: ByteView($0),
                to: output
            )
        }
    }
}
