internal import Seams

/// Lets one procedure of a lane sleep until somebody rings, or its time has come.
///
/// - Belongs to its lane. A ring while nobody sleeps is kept for the next who would.
final class LaneAlarm: @unchecked Sendable {  // tidy:allow belongs to its lane
    private let lane: any Lane
    private var sleeper: UnsafeContinuation<Void, Never>?
    private var timer: LaneTimer?
    private var hasRung = false

    init(_ lane: any Lane) {
        self.lane = lane
    }

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
