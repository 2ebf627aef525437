internal import Bytes
internal import Seams

/// A lane without a thread of its own: for a node that may not have more threads.
///
/// Its work runs on a lane that others use too, in order, so that nothing fails and everything is slower.
final class SharedLane: Lane {
    let name: String
    private let host: ThreadLane
    private let isStopped = Guarded(false)

    init(_ name: String, on host: ThreadLane) {
        self.name = name
        self.host = host
    }

    func post(_ work: @escaping @Sendable () -> Void) {
        guard !isStopped.withLock({ $0 }) else { return }
        host.post(work)
    }

    @discardableResult
    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        host.post(after: nanoseconds) { [self] in
            if !isStopped.withLock({ $0 }) { work() }
        }
    }

    /// Waits for the work that was posted before, unless it is called on the thread that runs it.
    func stop() {
        isStopped.withLock { $0 = true }
        guard !host.isCurrent else { return }
        let end = Gate(count: 1)
        host.post { end.pass() }
        end.wait()
    }
}
