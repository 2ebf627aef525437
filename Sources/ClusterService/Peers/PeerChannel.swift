internal import Bytes
internal import Seams
internal import Wire

/// A frame that came, with its own copy of the payload.
struct PeerArrival: Sendable {
    let kind: UInt16
    let call: UInt64
    let payload: [UInt8]
}

/// Frames in both directions over one connection; the inner handler of `control` and `join`.
///
/// Frames are queued by any thread, go out together in the next turn of the reactor, the urgent ones
/// first; what came in one turn goes to the lane together.
///
/// - Bounded: a frame that does not fit the queue is refused, and while the lane is behind nothing
///   is read.
/// - Pings are answered here: they ask for the process, not for the lane.
final class PeerChannel: ConnectionHandler,
    @unchecked Sendable  // tidy:allow its queues are locked, the rest belongs to one reactor
{
    /// Asks whether somebody is there; users' kinds lie between this and `notHandledKind`.
    static let pingKind: UInt16 = 0
    /// With the answer's bit: nobody handles such calls.
    static let notHandledKind: UInt16 = 0x7fff

    typealias Arrived = @Sendable ([PeerArrival]) -> Void

    private struct State {
        var urgent: [PeerArrival] = []
        var bulk: [PeerArrival] = []
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

    /// Queues a frame; false where the queue is full or the connection gone.
    func enqueue(_ frame: PeerArrival, isBulk: Bool? = nil) -> Bool {
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

    /// When the other side was last heard.
    var heardAt: UInt64 { state.withLock { $0.heardAt } }

    var queuedBytes: Int { state.withLock { $0.queuedBytes } }

    func close() { port.close() }

    /// The lane has handled frames.
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
        let taken = take(input, output)
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

    /// Hands whole frames to the lane; nil where the stream is nonsense.
    private func take(_ input: ByteView, _ output: ByteWriter) -> (consumed: Int, needed: Int)? {
        if state.withLock({ $0.isPaused }) { return (0, 0) }
        var consumed = 0
        var frames: [PeerArrival] = []
        var needed = 0
        scan: while true {
            switch decoder.next(in: input.dropFirst(consumed)) {
            case .nonsense: return nil
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

    /// Appends what waits, as far as one turn goes; true where more is left.
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
            // Until it is all out, we come back without being woken.
            state.isWoken = hasMore
            return hasMore
        }
    }

    private static func append(_ frame: PeerArrival, to output: ByteWriter) {
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
