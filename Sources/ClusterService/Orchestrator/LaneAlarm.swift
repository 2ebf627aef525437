internal import Seams

/// Lets one procedure of a lane sleep until `ring` is called or the time is up.
///
/// - Belongs to its lane. A ring while no procedure sleeps ends the next wait at once.
final class LaneAlarm: @unchecked Sendable {  // tidy:allow belongs to its lane
    private let lane: any Lane
    private var sleeper: UnsafeContinuation<Void, Never>?
    private var timer: LaneTimer?
    private var hasRung = false

    init(_ lane: any Lane) {
        self.lane = lane
    }

    /// Wakes the sleeping procedure, or ends its next wait at once.
    func ring() {
        guard let sleeper else {
            hasRung = true
            return
        }
        self.sleeper = nil
        timer?.cancel()
        timer = nil
        sleeper.resume()
    }

    /// Sleeps until the next ring, at most for `nanoseconds`.
    func wait(nanoseconds: UInt64) async {
        if hasRung {
            hasRung = false
            return
        }
        await withUnsafeContinuation { continuation in
            sleeper = continuation
            timer = lane.post(after: nanoseconds) { [weak self] in
                guard let self, sleeper != nil else { return }
                ring()
            }
        }
    }
}
