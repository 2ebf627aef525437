internal import Seams
internal import Vocabulary

/// The streams of messages to one node: opened, and opened again after they are lost.
///
/// - Belongs to the control lane.
/// - At most one attempt is under way; the pauses between attempts grow.
/// - Without streams, messages are dropped.
final class PeerLink: @unchecked Sendable {  // tidy:allow its state belongs to the control lane
    private enum Phase {
        /// Waits for the timer of the next attempt. Can become: connecting, ended.
        case resting(LaneTimer?)
        /// An attempt is under way; results of older attempts are ignored (`attempt` is its
        /// number). Can become: open, resting, ended.
        case connecting
        case open(MessageSender, since: UInt64)
        case ended
    }

    /// Attempts in a row that a kernel refused, after which their pauses grow too: until then they tell in time that a
    /// process is gone, or is back.
    private static let promptRefusalsMax = 50

    let node: NodeNumber
    private let calls: PeerCalls
    private var phase = Phase.resting(nil)
    private var attempt: UInt64 = 0
    private var backoff: UInt64
    /// Attempts in a row that the kernel of the other machine refused.
    private var refusals = 0
    /// The stream of messages while that of bulk messages is opened.
    private var half: MessageSender?
    private var bulk: MessageSender?

    init(to node: NodeNumber, of calls: PeerCalls) {
        self.node = node
        self.calls = calls
        backoff = calls.limits.backoffNanosecondsMin
    }

    var isOpen: Bool { if case .open = phase { true } else { false } }

    private var now: UInt64 { calls.environment.time.monotonicNanoseconds() }

    // MARK: Messages

    /// Sends a message; false if it was dropped.
    func send(_ kind: UInt16, _ payload: [UInt8], isBulk: Bool?) -> Bool {
        guard case .open(let sender, _) = phase else { return false }
        guard isBulk ?? (payload.count > calls.limits.urgentBytesMax) else {
            return sender.enqueue(kind, payload)
        }
        return bulk?.enqueue(kind, payload) ?? false
    }

    // MARK: Connecting

    func connect() {
        guard case .resting = phase else { return }
        phase = .connecting
        attempt += 1
        let number = attempt
        open(.messages, number) { sender in
            guard case .connecting = self.phase, number == self.attempt else {
                return sender.close()
            }
            self.half = sender
            self.open(.bulkMessages, number) { self.opened(sender, bulk: $0, number) }
        }
    }

    private func open(
        _ service: NodeService,
        _ number: UInt64,
        opened: @escaping @Sendable (MessageSender) -> Void
    ) {
        let calls = calls
        let opening = NodeLink.Opening(
            service: service,
            request: [],
            opened: { port in
                let sender = MessageSender(port, queueBytesMax: calls.limits.queueBytesMax) {
                    sender in
                    calls.lane.post { self.lost(sender) }
                }
                calls.lane.post { opened(sender) }
                return sender
            },
            failed: { failure in calls.lane.post { self.failed(failure, number) } }
        )
        calls.transport.open(opening, to: node)
    }

    /// The node has just opened a stream to this one, so it is up: do not wait until the pause is over.
    func hurry() {
        guard case .resting(let timer) = phase else { return }
        timer?.cancel()
        connect()
    }

    private func opened(_ sender: MessageSender, bulk: MessageSender, _ number: UInt64) {
        guard case .connecting = phase, number == attempt else {
            sender.close()
            return bulk.close()
        }
        // Its link may have ended before the second stream was opened, on another one.
        guard !sender.isClosed else {
            bulk.close()
            return failed(.closed, number)
        }
        phase = .open(sender, since: now)
        refusals = 0
        (self.half, self.bulk) = (nil, bulk)
        calls.reportEvent(.connected(node))
    }

    private func failed(_ failure: PeerFailure, _ number: UInt64) {
        guard case .connecting = phase, number == attempt else { return }
        half?.close()
        half = nil
        refusals = failure.isByKernel ? refusals + 1 : 0
        if refusals > 0, refusals <= PeerLink.promptRefusalsMax {
            backoff = calls.limits.backoffNanosecondsMin
        }
        rest()
        calls.reportEvent(.failed(node, failure))
    }

    private func lost(_ sender: MessageSender) {
        guard case .open(let current, let since) = phase, current === sender || bulk === sender
        else {
            return
        }
        current.close()
        bulk?.close()
        bulk = nil
        // A connection that was open for this long was not part of a series of failed attempts.
        if now - since >= calls.limits.backoffNanosecondsMax {
            backoff = calls.limits.backoffNanosecondsMin
        }
        rest()
        calls.reportEvent(.disconnected(node))
    }

    private func rest() {
        // A random pause, so that nodes that lost each other do not reconnect in step.
        let pause = backoff / 2 + calls.environment.entropy.next() % (backoff / 2 + 1)
        backoff = min(2 * backoff, calls.limits.backoffNanosecondsMax)
        phase = .resting(calls.lane.post(after: pause) { self.connect() })
    }

    func end() {
        if case .resting(let timer) = phase { timer?.cancel() }
        if case .open(let sender, _) = phase { sender.close() }
        half?.close()
        bulk?.close()
        phase = .ended
    }
}
