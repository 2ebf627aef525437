internal import Seams
internal import SyncService
internal import SyncWire

/// The heartbeats and the timeout of a feed that waits.
///
/// A timeout begins anew with each row that is sent.
final class FeedClock: @unchecked Sendable {  // tidy:allow belongs to the lane of its connection
    private let lane: any Lane
    private let feed: ChangesFeed
    private let waiting: ChangesRequest.Waiting
    private var heartbeat: LaneTimer?
    private var timeout: LaneTimer?
    private(set) var isTimedOut = false
    private var isHeartbeatDue = false

    init(_ feed: ChangesFeed, _ waiting: ChangesRequest.Waiting, on lane: any Lane) {
        self.feed = feed
        self.waiting = waiting
        self.lane = lane
        beatLater()
    }

    /// Begins the timeout anew.
    func restart() {
        timeout?.cancel()
        guard waiting.timeoutMilliseconds > 0 else { return }
        timeout = lane.post(after: nanoseconds(waiting.timeoutMilliseconds)) { [self] in
            isTimedOut = true
            feed.interrupt()
        }
    }

    /// Whether a heartbeat is due; then the next one is due an interval later.
    func takeHeartbeat() -> Bool {
        defer { isHeartbeatDue = false }
        return isHeartbeatDue
    }

    func stop() {
        heartbeat?.cancel()
        timeout?.cancel()
    }

    private func beatLater() {
        guard waiting.heartbeatMilliseconds > 0 else { return }
        heartbeat = lane.post(after: nanoseconds(waiting.heartbeatMilliseconds)) { [self] in
            isHeartbeatDue = true
            feed.interrupt()
            beatLater()
        }
    }

    private func nanoseconds(_ milliseconds: Int) -> UInt64 { UInt64(milliseconds) * 1_000_000 }
}
