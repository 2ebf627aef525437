internal import Seams
internal import Vocabulary
internal import Wire

/// A call that waits for its answer.
struct PeerPending: Sendable {
    let done: PeerCalls.Done
    let timer: LaneTimer
}

/// The outgoing connection to one node: opened, watched, and reopened after it is lost.
///
/// - Belongs to the control lane.
/// - At most one attempt is under way; the pauses between attempts grow.
/// - Calls made without a connection wait for the current or next attempt and fail with it; one-way
///   frames are dropped.
final class PeerLink: @unchecked Sendable {  // tidy:allow its state belongs to the control lane
    private enum Phase {
        /// Waits for the timer of the next attempt. Can become: connecting, ended.
        case resting(LaneTimer?)
        /// An attempt is under way; results of older attempts are ignored (`attempt` is its
        /// number). Can become: open, resting, ended.
        case connecting
        case open(PeerChannel, since: UInt64)
        case ended
    }

    let node: NodeNumber
    private let calls: PeerCalls
    private var phase = Phase.resting(nil)
    private var attempt: UInt64 = 0
    private var attemptedAt: UInt64 = 0
    private var backoff: UInt64
    private var waiting: [(frame: ReceivedPeerFrame, isBulk: Bool?)] = []
    private var waitingBytes = 0
    private var pending: [UInt64: PeerPending] = [:]
    private var watch: LaneTimer?
    /// When the oldest frame was sent after which nothing has been received; nil if there is no
    /// such frame.
    private var unansweredSince: UInt64?

    init(to node: NodeNumber, of calls: PeerCalls) {
        self.node = node
        self.calls = calls
        backoff = calls.limits.backoffNanosecondsMin
    }

    var isOpen: Bool { if case .open = phase { true } else { false } }

    private var now: UInt64 { calls.environment.time.monotonicNanoseconds() }

    // MARK: Frames

    /// Sends a one-way frame; false if it was dropped.
    func send(_ frame: ReceivedPeerFrame, isBulk: Bool?) -> Bool {
        guard case .open(let channel, _) = phase, channel.enqueue(frame, isBulk: isBulk) else {
            return false
        }
        startSilenceCheck()
        return true
    }

    func call(_ frame: ReceivedPeerFrame, isBulk: Bool?, _ call: PeerPending) {
        switch phase {
        case .open(let channel, _):
            guard channel.enqueue(frame, isBulk: isBulk) else {
                return finish(call, .failure(.overloaded))
            }
            pending[frame.call] = call
            startSilenceCheck()
        case .resting, .connecting:
            let count = frame.payload.count + PeerFrame.headerCount
            guard waitingBytes + count <= calls.limits.queueBytesMax else {
                return finish(call, .failure(.overloaded))
            }
            waitingBytes += count
            waiting.append((frame, isBulk))
            pending[frame.call] = call
        case .ended: finish(call, .failure(.unreachable))
        }
    }

    func timeOut(_ call: UInt64) {
        guard let found = pending.removeValue(forKey: call) else { return }
        if let place = waiting.firstIndex(where: { $0.frame.call == call }) {
            waitingBytes -= waiting[place].frame.payload.count + PeerFrame.headerCount
            waiting.remove(at: place)
        }
        finish(found, .failure(.timedOut))
    }

    private func handleFrames(_ frames: [ReceivedPeerFrame], from channel: PeerChannel) {
        guard case .open(let current, _) = phase, current === channel else { return }
        for frame in frames {
            guard frame.kind & PeerFrame.answerBit != 0 else { return channel.close() }
            // A late answer to a call that timed out is ignored.
            guard let call = pending.removeValue(forKey: frame.call) else { continue }
            let isHandled = frame.kind & ~PeerFrame.answerBit != PeerChannel.notHandledKind
            finish(call, isHandled ? .success(frame.payload) : .failure(.notHandled))
        }
    }

    private func finish(_ call: PeerPending, _ result: Result<[UInt8], PeerCallError>) {
        call.timer.cancel()
        call.done(result)
    }

    // MARK: Connecting

    func connect() {
        guard case .resting = phase else { return }
        phase = .connecting
        attempt += 1
        attemptedAt = now
        let (number, calls) = (attempt, calls)
        calls.transport.open(
            .control,
            to: node,
            connected: { port in
                let box = PeerChannelBox()
                let channel = PeerChannel(
                    over: port,
                    lane: calls.lane,
                    time: calls.environment.time,
                    limits: calls.limits,
                    arrived: { frames in
                        if let channel = box.channel { self.handleFrames(frames, from: channel) }
                    },
                    ended: {
                        if let channel = box.channel { self.lost(channel) }
                        box.channel = nil
                    }
                )
                calls.lane.post {
                    box.channel = channel
                    self.opened(channel, number)
                }
                return channel
            },
            failed: { failure in calls.lane.post { self.failed(failure, number) } }
        )
    }

    /// The node has just connected to this one, so it is up: do not wait until the pause is over,
    /// and abandon an attempt from before, whose first packet TCP repeats only after seconds.
    func hurry() {
        let isStale = now - attemptedAt >= Self.promptNanoseconds
        if case .connecting = phase, isStale { phase = .resting(nil) }
        guard case .resting(let timer) = phase else { return }
        timer?.cancel()
        connect()
    }

    /// A connection attempt that succeeds takes no longer than this; a younger attempt is not
    /// abandoned.
    ///
    /// If two nodes start at the same time, neither may abandon its first attempt.
    private static let promptNanoseconds: UInt64 = 300_000_000

    /// The node's address changed: abandon the attempt to the old address, or end the pause.
    func redial() {
        if case .connecting = phase { phase = .resting(nil) }
        hurry()
    }

    private func opened(_ channel: PeerChannel, _ number: UInt64) {
        guard case .connecting = phase, number == attempt else { return channel.close() }
        phase = .open(channel, since: now)
        let sending = waiting
        waiting = []
        waitingBytes = 0
        for (frame, isBulk) in sending where !channel.enqueue(frame, isBulk: isBulk) {
            if let call = pending.removeValue(forKey: frame.call) {
                finish(call, .failure(.overloaded))
            }
        }
        if !sending.isEmpty { startSilenceCheck() }
        calls.reportEvent(.connected(node))
    }

    private func failed(_ failure: PeerFailure, _ number: UInt64) {
        guard case .connecting = phase, number == attempt else { return }
        failAll()
        rest()
        calls.reportEvent(.failed(node, failure))
    }

    private func lost(_ channel: PeerChannel) {
        guard case .open(let current, let since) = phase, current === channel else { return }
        watch?.cancel()
        watch = nil
        unansweredSince = nil
        // A connection that was open for this long was not part of a series of failed attempts.
        if now - since >= calls.limits.backoffNanosecondsMax {
            backoff = calls.limits.backoffNanosecondsMin
        }
        failAll()
        rest()
        calls.reportEvent(.disconnected(node))
    }

    private func rest() {
        // A random pause, so that nodes that lost each other do not reconnect in step.
        let pause = backoff / 2 + calls.environment.entropy.next() % (backoff / 2 + 1)
        backoff = min(2 * backoff, calls.limits.backoffNanosecondsMax)
        phase = .resting(calls.lane.post(after: pause) { self.connect() })
    }

    /// Fails all calls.
    ///
    /// Frames that were already sent may have been carried out.
    private func failAll() {
        let failing = pending.sorted { $0.key < $1.key }
        pending = [:]
        waiting = []
        waitingBytes = 0
        for (_, call) in failing { finish(call, .failure(.unreachable)) }
    }

    func end() {
        if case .resting(let timer) = phase { timer?.cancel() }
        if case .open(let channel, _) = phase { channel.close() }
        phase = .ended
        watch?.cancel()
        watch = nil
        failAll()
    }

    // MARK: Silence

    /// Starts the timer that checks whether the node still answers.
    private func startSilenceCheck() {
        if unansweredSince == nil { unansweredSince = now }
        guard watch == nil else { return }
        watch = calls.lane.post(after: calls.limits.pingNanoseconds) { self.checkSilence() }
    }

    private func checkSilence() {
        watch = nil
        guard case .open(let channel, _) = phase else { return }
        if let since = unansweredSince, channel.heardAt > since {
            unansweredSince = nil
            // Nothing is unanswered: check again only after the next frame is sent.
            if pending.isEmpty && channel.queuedBytes == 0 { return }
        }
        // Later frames are counted from the ping below.
        let since = unansweredSince ?? now
        unansweredSince = since
        let silent = now - since
        guard silent < calls.limits.silenceNanoseconds else {
            calls.environment.trace.info(
                "peers",
                "\(node) is silent for \(silent / 1_000_000) ms: closed the connection"
            )
            return channel.close()
        }
        calls.ping(channel)
        let pause = min(calls.limits.pingNanoseconds, calls.limits.silenceNanoseconds - silent)
        watch = calls.lane.post(after: pause) { self.checkSilence() }
    }
}

/// Lets the callbacks of a channel refer to it; used on the control lane only.
final class PeerChannelBox: @unchecked Sendable {  // tidy:allow belongs to the control lane
    var channel: PeerChannel?
}
