internal import Orchestration
internal import Seams
package import Vocabulary

/// What happened on all nodes: each remembers its own events, and tells them when asked.
extension AdministrationService {
    private static var eventsPatience: UInt64 { 2_000_000_000 }

    /// A node that is silent is left out, and its events are seen again with it.
    ///
    /// - Parameters:
    ///   - sinceMilliseconds: Not older than this, by the clocks of the nodes.
    ///   - countMax: At most so many.
    /// - Returns: The newest events of all nodes that answer, oldest first.
    package func events(
        sinceMilliseconds: UInt64,
        countMax: Int
    ) async -> [(node: NodeNumber, entry: EventLog.Entry)] {
        let call = EventsCall(sinceMilliseconds: sinceMilliseconds, countMax: countMax)
        var found = events.newest(call.countMax, sinceMilliseconds: call.sinceMilliseconds).map {
            (node: thisNode, entry: $0)
        }
        for other in state.nodes.map(\.number) where other != thisNode && !isSilent(other) {
            let result = await calls.call(
                PeerKind.events,
                call.bytes,
                to: other,
                timeoutNanoseconds: Self.eventsPatience
            )
            guard case .success(let bytes) = result, let answer = EventsAnswer(bytes: bytes)
            else { continue }
            found += answer.entries.map { (other, $0) }
        }
        // Of one millisecond, a node's own order stays.
        let sorted = found.enumerated().sorted { one, other in
            (one.element.entry.milliseconds, one.offset)
                < (other.element.entry.milliseconds, other.offset)
        }
        return sorted.suffix(countMax).map(\.element)
    }

    func handleEvents() {
        calls.handleCalls(PeerKind.events) { [weak self] _, bytes, answer in
            guard let self, let call = EventsCall(bytes: bytes) else { return answer([]) }
            answer(
                EventsAnswer(
                    entries: events.newest(call.countMax, sinceMilliseconds: call.sinceMilliseconds)
                ).bytes
            )
        }
    }
}
