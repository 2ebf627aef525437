internal import Seams

/// The clocks of one host, which faults make differ from the world's time.
///
/// - The monotonic clock never goes back: it runs at a rate or stands still. The wall clock may jump
///   either way.
/// - Timers use the monotonic clock. While it stands still, timers use the world's time: the machine
///   itself still runs.
package final class SimulatedClock: TimeSource, @unchecked Sendable {  // tidy:allow one thread
    private let time: VirtualTime
    /// The monotonic clock showed `base` at the world's time `start`.
    private var start: UInt64 = 0
    private var base: UInt64
    private var wallOffset: UInt64
    /// How much too fast the clock is, in parts per million; nil while it stands still.
    package private(set) var drift: Int64? = 0

    /// A Tuesday in November 2023.
    private static let epoch: UInt64 = 1_700_000_000_000_000_000

    init(time: VirtualTime, uptime: UInt64) {
        self.time = time
        base = uptime
        wallOffset = SimulatedClock.epoch &- uptime
    }

    package func monotonicNanoseconds() -> UInt64 {
        guard let drift else { return base }
        return base + SimulatedClock.scale(time.now - start, by: 1_000_000 + drift, of: 1_000_000)
    }

    /// Scales a span, rounded only once: otherwise a slow clock could step back a little.
    private static func scale(_ span: UInt64, by one: Int64, of other: Int64) -> UInt64 {
        let product = span.multipliedFullWidth(by: UInt64(one))
        return UInt64(other).dividingFullWidth(product).quotient
    }

    package func wallNanoseconds() -> UInt64 { wallOffset &+ monotonicNanoseconds() }

    // MARK: Faults

    /// Sets the wall clock forward or back.
    package func jump(by nanoseconds: Int64) {
        wallOffset = wallOffset &+ UInt64(bitPattern: nanoseconds)
    }

    /// Runs the clock too fast by this many parts per million from now on.
    package func run(drift millionths: Int64) {
        rebase()
        drift = millionths
    }

    /// Stops the monotonic clock until `run(drift:)`.
    package func freeze() {
        rebase()
        drift = nil
    }

    /// Restarts the monotonic clock, as a boot of the machine does.
    func reboot() {
        let wall = wallNanoseconds()
        base = 10_000_000_000
        start = time.now
        wallOffset = wall &- base
    }

    private func rebase() {
        base = monotonicNanoseconds()
        start = time.now
    }

    // MARK: Timers

    /// The world's time at which this clock will show `due`.
    func worldTime(of due: UInt64) -> UInt64 {
        let shown = monotonicNanoseconds()
        guard due > shown else { return time.now }
        let left = due - shown
        guard let drift else { return time.now + left }
        return time.now + SimulatedClock.scale(left, by: 1_000_000, of: 1_000_000 + drift)
    }

    /// Whether a timer for `due` is due; always true while the clock stands still.
    func hasReached(_ due: UInt64) -> Bool {
        // Tolerates the rounding of `worldTime(of:)`.
        drift == nil || monotonicNanoseconds() + 1_000 >= due
    }
}
