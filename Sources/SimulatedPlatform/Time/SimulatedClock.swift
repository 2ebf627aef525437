internal import Seams

/// The clocks of one host: they differ from the world's time as the faults have it.
///
/// - The monotonic clock never goes back: it runs at a rate, stands still, or jumps ahead (a
///   suspended machine). The wall clock may jump either way.
/// - Timers are measured by the monotonic clock. While it stands still they go by the world's time:
///   a machine whose clock stands still has not stopped working.
package final class SimulatedClock: TimeSource, @unchecked Sendable {  // tidy:allow one thread
    private let time: VirtualTime
    /// The monotonic clock showed `base` when the world's time was `start`.
    private var start: UInt64 = 0
    private var base: UInt64
    private var wallOffset: UInt64
    /// Millionths by which the clock is too fast; nil while it stands still.
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

    /// Rounded once, at the end: else a slow clock would go back a little with every millisecond.
    private static func scale(_ span: UInt64, by one: Int64, of other: Int64) -> UInt64 {
        let product = span.multipliedFullWidth(by: UInt64(one))
        return UInt64(other).dividingFullWidth(product).quotient
    }

    package func wallNanoseconds() -> UInt64 { wallOffset &+ monotonicNanoseconds() }

    // MARK: What goes wrong

    /// The wall clock is set forth or back.
    package func jump(by nanoseconds: Int64) {
        wallOffset = wallOffset &+ UInt64(bitPattern: nanoseconds)
    }

    /// From now on the clock is too fast by so many millionths.
    package func run(drift millionths: Int64) {
        rebase()
        drift = millionths
    }

    /// The monotonic clock stands still until `run(drift:)`.
    package func freeze() {
        rebase()
        drift = nil
    }

    /// The machine starts anew: its monotonic clock begins where it always begins.
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

    /// When, in the world's time, this clock will show `due`.
    func worldTime(of due: UInt64) -> UInt64 {
        let shown = monotonicNanoseconds()
        guard due > shown else { return time.now }
        let left = due - shown
        guard let drift else { return time.now + left }
        return time.now + SimulatedClock.scale(left, by: 1_000_000, of: 1_000_000 + drift)
    }

    /// Whether a timer for `due` has come; a stopped clock believes the world.
    func hasReached(_ due: UInt64) -> Bool {
        // A rounding of a millionth of what was left is no reason to wait again.
        drift == nil || monotonicNanoseconds() + 1_000 >= due
    }
}
