internal import Bytes
internal import Seams

/// A queue of events from other lanes to a connection's handler.
///
/// The first event of a batch wakes the handler.
final class EventQueue<Event: Sendable>: Sendable {
    private let events = Guarded<[Event]>([])
    private let port: any ConnectionPort

    init(port: any ConnectionPort) { self.port = port }

    func put(_ event: Event) {
        let isFirst = events.withLock { events in
            events.append(event)
            return events.count == 1
        }
        if isFirst { port.wake() }
    }

    func drain() -> [Event] {
        events.withLock { events in
            defer { events = [] }
            return events
        }
    }
}
