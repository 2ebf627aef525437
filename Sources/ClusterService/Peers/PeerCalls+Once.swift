internal import Seams
package import Vocabulary
internal import Wire

/// Calls on a connection that is made for one request and its answer.
extension PeerCalls {
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
        callOnce(kind, payload, timeoutNanoseconds, done) { connected, failed in
            self.transport.openStranger(to: address, connected: connected, failed: failed)
        }
    }

    /// Calls a member of the directory that may be of another epoch, on a connection of its own.
    package func callAcrossEpochs(
        _ node: NodeNumber,
        _ kind: UInt16,
        _ payload: [UInt8],
        timeoutNanoseconds: UInt64,
        done: @escaping Done
    ) {
        let made: StrangerPayload = { _ in payload }
        callOnce(kind, made, timeoutNanoseconds, done) { connected, failed in
            self.transport.open(.epoch, to: node, connected: connected, failed: failed)
        }
    }

    private func callOnce(
        _ kind: UInt16,
        _ payload: @escaping StrangerPayload,
        _ timeoutNanoseconds: UInt64,
        _ done: @escaping Done,
        open: (@escaping PeerTransport.Accept, @escaping PeerTransport.Failed) -> Void
    ) {
        let once = SingleCall(done)
        once.timer = lane.post(after: timeoutNanoseconds) { once.finish(.failure(.timedOut)) }
        let (lane, time, limits) = (lane, environment.time, limits)
        open(
            { port in
                guard let frame = payload(port).map({ PeerCalls.frame(kind, 1, $0) }) else {
                    lane.post { once.finish(.failure(.untrusted)) }
                    return ClosingHandler(port)
                }
                let channel = PeerChannel(
                    over: port,
                    lane: lane,
                    time: time,
                    limits: limits,
                    arrived: { frames in
                        for frame in frames where frame.kind & PeerFrame.answerBit != 0 {
                            let refused = PeerChannel.notHandledKind | PeerFrame.answerBit
                            let isHandled = frame.kind != refused
                            once.finish(
                                isHandled ? .success(frame.payload) : .failure(.notHandled)
                            )
                        }
                    },
                    ended: { once.finish(.failure(.unreachable)) }
                )
                lane.post { once.adopt(channel, frame) }
                return channel
            },
            { failure in
                lane.post {
                    let error: PeerCallError =
                        switch failure {
                        case .timedOut: .timedOut
                        case .refused(.wrongKey), .refused(.keyRefused): .untrusted
                        default: .unreachable
                        }
                    once.finish(.failure(error))
                }
            }
        )
    }
}

/// A call that is finished once, by its answer, its timer or the end of its connection.
final class SingleCall: @unchecked Sendable {  // tidy:allow belongs to the control lane
    var timer: LaneTimer?
    private var done: PeerCalls.Done?
    private var channel: PeerChannel?

    init(_ done: @escaping PeerCalls.Done) {
        self.done = done
    }

    func adopt(_ channel: PeerChannel, _ frame: ReceivedPeerFrame) {
        guard done != nil, channel.enqueue(frame) else { return channel.close() }
        self.channel = channel
    }

    func finish(_ result: Result<[UInt8], PeerCallError>) {
        let told = done
        done = nil
        timer?.cancel()
        channel?.close()
        channel = nil
        told?(result)
    }
}
