internal import Bytes
internal import Seams

/// A queue of events from other lanes to the handler of a connection or a stream.
///
/// The first event of a batch wakes the handler.
final class EventQueue<Event: Sendable>: Sendable {
    private let events = Guarded<[Event]>([])
    private let wake: @Sendable () -> Void

    init(wake: @escaping @Sendable () -> Void) { self.wake = wake }

    convenience init(port: any ConnectionPort) { self.init { port.wake() } }

    func put(_ event: Event) {
        let isFirst = events.withLock { events in
            events.append(event)
            return events.count == 1
        }
        if isFirst { wake() }
    }

    /// Puts an event after a pause.
    func put(_ event: Event, after nanoseconds: UInt64, on worker: DataLanes.Worker) {
        worker.lane.post(after: nanoseconds) { [self] in put(event) }
    }

    func drain() -> [Event] {
        events.withLock { exchange(&$0, with: []) }
    }
}
