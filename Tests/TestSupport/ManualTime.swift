internal import Bytes
package import Seams

/// Time that moves only if a test moves it, or another clock's time that a test moves forward.
package final class ManualTime: TimeSource {
    /// A Tuesday in November 2023.
    private static let epoch: UInt64 = 1_700_000_000_000_000_000

    private let base: (any TimeSource)?
    private let step: UInt64
    private let passed: Guarded<UInt64>
    private let interruption = Guarded<(@Sendable () -> Void)?>(nil)

    /// A clock at rest.
    ///
    /// - Parameters:
    ///   - base: The clock that is moved forward; nil for time that stands still.
    ///   - stepNanoseconds: The time that passes with each reading of the monotonic clock.
    package init(over base: (any TimeSource)? = nil, stepNanoseconds: UInt64 = 0) {
        self.base = base
        step = stepNanoseconds
        passed = Guarded(base == nil ? 1_000_000_000 : 0)
    }

    /// Calls `body` once, within the next reading of the wall clock: in the middle of a work item.
    package func interruptNextReading(_ body: @escaping @Sendable () -> Void) {
        interruption.withLock { $0 = body }
    }

    package func monotonicNanoseconds() -> UInt64 {
        let passed = passed.withLock { passed in
            passed += step
            return passed
        }
        return (base?.monotonicNanoseconds() ?? 0) + passed
    }

    package func wallNanoseconds() -> UInt64 {
        let body: (@Sendable () -> Void)? = interruption.withLock { interruption in
            defer { interruption = nil }
            return interruption
        }
        body?()
        return (base?.wallNanoseconds() ?? ManualTime.epoch) + passed.withLock { $0 }
    }

    /// The wall clock in seconds since 1970.
    package var seconds: UInt32 { UInt32(wallNanoseconds() / 1_000_000_000) }

    /// Moves time that stands still to `nanoseconds`, unless it is later already.
    package func advance(to nanoseconds: UInt64) {
        passed.withLock { $0 = max($0, nanoseconds) }
    }

    /// Moves time forward.
    package func advance(by nanoseconds: UInt64) { passed.withLock { $0 += nanoseconds } }
}
