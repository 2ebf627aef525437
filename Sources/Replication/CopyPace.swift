/// The rate at which a node sends copies that are still being built, so that clients are served
/// nearly as fast as before.
///
/// Without a limit, copying uses all processors, and a client's request waits for the reactor and
/// for a processor. So the control variable is the reactors' lateness: the delay of posted work.
/// Additive increase while reactors are on time, multiplicative decrease while they are late:
/// several senders, at both ends of a connection or on the same machine, converge to even shares of
/// the capacity that clients leave.
///
/// A machine without a clock: times are arguments, in monotonic nanoseconds.
///
/// - Below `operationsPerSecondMin` of client operations the rate is unlimited.
/// - The rate is never below `bytesPerSecondMin`, so that a rebalance ends under any load.
package struct CopyPace: Hashable, Sendable {
    /// Measurements of the node since the previous sample.
    package struct Sample: Hashable, Sendable {
        /// The longest delay of work posted to a reactor, in nanoseconds.
        package var lateness: UInt64
        /// Client operations since the previous sample.
        package var operations: UInt64

        package init(lateness: UInt64, operations: UInt64) {
            self.lateness = lateness
            self.operations = operations
        }
    }

    package static let bytesPerSecondMin = 4.0 * 1_048_576
    /// Above this rate there is no limit in effect: no processor copies as fast.
    private static let bytesPerSecondMax = 2_048.0 * 1_048_576
    /// Nanoseconds of mean lateness above which the rate falls, because clients wait.
    package static let latenessMax: UInt64 = 400_000
    /// The rate's growth per second without lateness, in bytes per second.
    ///
    /// Lateness is measured a twentieth of a second after its cause; by then the rate exceeds the
    /// capacity that clients leave, by more the faster it grows. With four times this growth, p99
    /// latency during a rebalance was 3 to 4 times that without one; with this growth it is twice
    /// that (`benchmarks/cluster rebalance`).
    package static let growth = 32.0 * 1_048_576
    /// The relative decrease of the rate per second of lateness: it is halved in a tenth of a
    /// second.
    private static let decay = 7.0
    /// The rate of client operations from which copies are slowed down.
    package static let operationsPerSecondMin = 100.0
    /// The budget holds at most this many seconds of the rate, so a late sample loses no
    /// throughput.
    private static let burstSeconds = 0.02

    /// The present rate; nil if it is unlimited.
    package private(set) var bytesPerSecond: Double?
    private var budget = 0.0
    private var lookedAt: UInt64
    private var lateness = 0.0
    private var operationsPerSecond = 0.0

    package init(now: UInt64) {
        lookedAt = now
    }

    /// The bytes that may be sent now; the last message may exceed them.
    package var room: Int { bytesPerSecond == nil ? .max : max(0, Int(budget)) }

    package mutating func sent(_ bytes: Int) {
        if bytesPerSecond != nil { budget -= Double(bytes) }
    }

    package mutating func look(_ sample: Sample, now: UInt64) {
        guard now > lookedAt else { return }
        let seconds = Double(now - lookedAt) / 1e9
        lookedAt = now
        lateness += (Double(sample.lateness) - lateness) / 8
        // The mean of the last fifth of a second.
        let share = min(1, seconds * 5)
        operationsPerSecond += (Double(sample.operations) / seconds - operationsPerSecond) * share
        guard operationsPerSecond >= CopyPace.operationsPerSecondMin else {
            bytesPerSecond = nil
            return
        }
        var speed = bytesPerSecond ?? CopyPace.bytesPerSecondMin
        // After a long pause the sample says little about the time between, so the step is bounded.
        let step = min(seconds, 0.05)
        if lateness > Double(CopyPace.latenessMax) {
            speed *= 1 - step * CopyPace.decay
        } else {
            speed += step * CopyPace.growth
        }
        speed = min(max(speed, CopyPace.bytesPerSecondMin), CopyPace.bytesPerSecondMax)
        bytesPerSecond = speed
        budget = min(budget + speed * seconds, speed * CopyPace.burstSeconds)
    }
}
