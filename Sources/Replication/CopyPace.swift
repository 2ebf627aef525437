/// The rate at which a node sends copies that are still being built, so that clients are served
/// nearly as fast as before.
///
/// Copying takes all the processors there are, and a request waits behind it: for its turn on the
/// reactor, and for the reactor's turn on a processor. So it is measured how late reactors come to
/// what is asked of them. While they are in time copies go faster by a fixed step, when they are late
/// slower by a share: several senders, at both ends of a connection or on the same machine,
/// converge to even shares of the capacity that clients leave.
///
/// A machine: it has no clock, times are what the caller read, in monotonic nanoseconds.
///
/// - Where hardly any client asks for anything nothing is held back.
/// - It never goes below `bytesPerSecondMin`: a rebalance ends, whatever the load.
package struct CopyPace: Hashable, Sendable {
    /// What looks find of the node since the look before.
    package struct Sample: Hashable, Sendable {
        /// What a reactor took to come to something that was asked of it, at worst.
        package var lateness: UInt64
        /// Operations that clients asked for.
        package var operations: UInt64

        package init(lateness: UInt64, operations: UInt64) {
            self.lateness = lateness
            self.operations = operations
        }
    }

    package static let bytesPerSecondMin = 4.0 * 1_048_576
    /// Beyond this nothing is held back: no processor copies as fast.
    private static let bytesPerSecondMax = 2_048.0 * 1_048_576
    /// A reactor that is later than this, in the mean of some looks, keeps clients waiting.
    package static let latenessMax: UInt64 = 400_000
    /// What the speed grows by in a second without lateness.
    ///
    /// Lateness is seen a twentieth of a second after what made it, and by then the speed is beyond
    /// what clients leave: the steeper it grows, the longer they wait. With four times as much p99
    /// beside a rebalance was 3 to 4 times what it had been before, now it is twice that
    /// (`benchmarks/cluster rebalance`).
    package static let growth = 32.0 * 1_048_576
    /// What the speed loses of itself for each second of lateness: it is halved in a tenth of one.
    private static let decay = 7.0
    /// Copies are slowed down only from this rate of client operations on.
    package static let operationsPerSecondMin = 100.0
    /// So long what was not sent may be sent later: a look that is late costs nothing.
    private static let burstSeconds = 0.02

    /// Nil where nothing is held back.
    package private(set) var bytesPerSecond: Double?
    private var budget = 0.0
    private var lookedAt: UInt64
    private var lateness = 0.0
    private var operationsPerSecond = 0.0

    package init(now: UInt64) {
        lookedAt = now
    }

    /// How many bytes may be sent now; the last message may go beyond it.
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
        // A node that was asleep for long knows nothing of what was between.
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
