internal import Bytes
internal import Seams
package import Vocabulary

/// Calls: a stream each, with the request and its answer.
extension PeerCalls {
    /// Makes the request of a call; nil if the other side is not trusted with it.
    typealias MakeRequest = @Sendable (any StreamPort) -> [UInt8]?

    /// Calls a stranger: a node that may be in no cluster.
    ///
    /// `payload` is called once the other side has proved its key.
    package func callStranger(
        at address: PeerAddress,
        _ kind: UInt16,
        _ payload: @escaping StrangerPayload,
        timeoutNanoseconds: UInt64,
        done: @escaping Done
    ) {
        let made: MakeRequest = { port in (port as? LinkStream).flatMap { payload($0.link.port) } }
        begin(kind, .join, timeoutNanoseconds, made, done) { transport.openOnce($0, at: address) }
    }

    /// Calls a member of the directory that may be of another epoch, on a connection of its own.
    package func callAcrossEpochs(
        _ node: NodeNumber,
        _ kind: UInt16,
        _ payload: [UInt8],
        timeoutNanoseconds: UInt64,
        done: @escaping Done
    ) {
        let request: MakeRequest = { _ in payload }
        begin(kind, .epoch, timeoutNanoseconds, request, done) { transport.open($0, to: node) }
    }

    func begin(
        _ kind: UInt16,
        _ service: NodeService,
        _ timeoutNanoseconds: UInt64,
        _ payload: @escaping MakeRequest,
        _ done: @escaping Done,
        open: (NodeLink.Opening) -> Void
    ) {
        let call = PendingCall(on: lane, done)
        call.start(timeoutNanoseconds: timeoutNanoseconds)
        open(
            NodeLink.Opening(
                service: service,
                request: [],
                opened: { port in
                    let request = payload(port)
                    if request == nil { call.finish(.failure(.untrusted)) }
                    return CallStream(call, port, request: request.map { (kind, $0) })
                },
                failed: { failure in call.finish(.failure(PeerCallError(failure))) }
            )
        )
    }
}

extension PeerCallError {
    fileprivate init(_ failure: PeerFailure) {
        switch failure {
        case .timedOut: self = .timedOut
        case .refused(.wrongKey), .refused(.keyRefused): self = .untrusted
        case .tooManyStreams: self = .overloaded
        default: self = .unreachable
        }
    }
}

/// A call that is finished once: by its answer, its timer or the end of its stream.
private final class PendingCall: Sendable {
    private struct State {
        var done: PeerCalls.Done?
        var timer: LaneTimer?
        var port: (any StreamPort)?
    }

    private let lane: any Lane
    private let state: Guarded<State>

    init(on lane: any Lane, _ done: @escaping PeerCalls.Done) {
        self.lane = lane
        state = Guarded(State(done: done))
    }

    func start(timeoutNanoseconds: UInt64) {
        let timer = lane.post(after: timeoutNanoseconds) { self.finish(.failure(.timedOut)) }
        state.withLock { $0.timer = timer }
    }

    /// Whether the call still waits; its stream ends when it does not.
    func adopt(_ port: any StreamPort) -> Bool {
        state.withLock { state in
            if state.done != nil { state.port = port }
            return state.done != nil
        }
    }

    /// Reports the result on the lane.
    func finish(_ result: Result<[UInt8], PeerCallError>) {
        let finished = state.withLock { state in
            defer { state = State(done: nil) }
            return state
        }
        guard let done = finished.done else { return }
        finished.timer?.cancel()
        finished.port?.end(nil)
        lane.post { done(result) }
    }
}

/// The caller's end: a request out, an answer in.
private final class CallStream: StreamHandler {
    private let call: PendingCall
    private var request: (kind: UInt16, payload: [UInt8])?

    init(_ call: PendingCall, _ port: any StreamPort, request: (UInt16, [UInt8])?) {
        self.call = call
        self.request = request
        if !call.adopt(port) { port.end(nil) }
    }

    func receive(_ message: ByteView) -> StreamReception {
        guard !message.isEmpty else { return .invalid("an empty answer") }
        let isHandled = message[0] == AnsweredCall.handled
        call.finish(isHandled ? .success(message.dropFirst(1).bytes) : .failure(.notHandled))
        return .handled
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        guard let (kind, payload) = request else { return .asleep }
        request = nil
        output.append { writer in
            writer.append(bigEndian: kind)
            writer.append(payload)
        }
        return .asleep
    }

    func closed(_ reason: String?) { call.finish(.failure(.unreachable)) }
}

/// The called node's end: one request in, one answer out.
final class AnsweredCall: StreamHandler, Sendable {
    /// The first byte of an answer; another one if the node knows no such call.
    static let handled: UInt8 = 1

    private struct State {
        var isCalled = false
        var answer: [UInt8]?
    }

    private let port: any StreamPort
    private let handle: @Sendable (UInt16, [UInt8], @escaping @Sendable ([UInt8]?) -> Void) -> Void
    private let state = Guarded(State())

    /// - Parameters:
    ///   - port: The stream.
    ///   - handle: Gets kind, payload, and what to call with the answer; nil if there is no such call.
    init(
        _ port: any StreamPort,
        _ handle:
            @escaping @Sendable (UInt16, [UInt8], @escaping @Sendable ([UInt8]?) -> Void) -> Void
    ) {
        self.port = port
        self.handle = handle
    }

    func receive(_ message: ByteView) -> StreamReception {
        guard message.count >= 2 else { return .invalid("a call without a kind") }
        let isFirst = state.withLock { state in
            defer { state.isCalled = true }
            return !state.isCalled
        }
        guard isFirst else { return .invalid("a second call") }
        let (port, state) = (port, state)
        handle(message.bigEndian(at: 0, as: UInt16.self), message.dropFirst(2).bytes) { answer in
            precondition(answer?.count ?? 0 < NodeService.callBytesMax, "an answer is bounded")
            state.withLock { $0.answer = answer.map { [AnsweredCall.handled] + $0 } ?? [0] }
            port.wake()
        }
        return .kept
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        guard let answer = state.withLock({ $0.answer }) else { return .asleep }
        output.append { $0.append(answer) }
        return .over
    }

    func closed(_ reason: String?) {}
}
