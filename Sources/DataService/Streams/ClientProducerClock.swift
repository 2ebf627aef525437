internal import Bytes
internal import Seams
internal import Synchronization
internal import Vocabulary

/// Ticks once a second for a connection that streams changes, and closes it if its client does not
/// read.
///
/// A reactor does not call the handler of a connection whose output is blocked. So this runs on a
/// lane of its own, and compares the time of the handler's last turn.
final class ClientProducerClock: Sendable {
    private static let pauseNanoseconds: UInt64 = 1_000_000_000

    private let service: DocumentService
    private let port: any ConnectionPort
    private let tick: @Sendable () -> Void
    private let turnedAt: Atomic<UInt64>
    private let isStopped = Atomic<Bool>(false)

    init(
        _ service: DocumentService,
        port: any ConnectionPort,
        tick: @escaping @Sendable () -> Void
    ) {
        self.service = service
        self.port = port
        self.tick = tick
        turnedAt = Atomic(service.environment.time.monotonicNanoseconds())
    }

    /// The monotonic time, in nanoseconds.
    var now: UInt64 { service.environment.time.monotonicNanoseconds() }

    func start() { post() }

    func stop() { isStopped.store(true, ordering: .relaxed) }

    /// The handler of the connection runs, so that its output is not blocked.
    func recordTurn() {
        turnedAt.store(service.environment.time.monotonicNanoseconds(), ordering: .relaxed)
    }

    private func post() {
        service.lanes.nonIO.lane.post(after: ClientProducerClock.pauseNanoseconds) { [weak self] in
            self?.run()
        }
    }

    private func run() {
        guard !isStopped.load(ordering: .relaxed) else { return }
        let silence =
            service.environment.time.monotonicNanoseconds() &- turnedAt.load(ordering: .relaxed)
        guard silence < Limits.backfillStallMilliseconds * 1_000_000 else {
            service.environment.trace.info(
                "data",
                "Closing the connection of \(port.peer): it streams changes, and its client has "
                    + "read nothing for \(silence / 1_000_000_000) s."
            )
            return port.close()
        }
        tick()
        post()
    }
}
