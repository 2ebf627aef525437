/// When an index reads changes: all the time, or in updates that begin on a condition.
///
/// Couchbase Server updates an index every 5 s if 5 000 changes wait. An index here follows its
/// documents continuously at these values and below them: no application can rely on changes that
/// are *not* visible. Larger values make an index lag, in exchange for fewer and larger commits:
/// then an update begins when so many changes wait, when the interval has passed, or when a query
/// requests it.
///
/// Times are monotonic nanoseconds.
package struct UpdateSchedule: Sendable {
    /// The settings of an administrator or of a design document's author.
    package struct Terms: Hashable, Sendable {
        package static let changesMinDefault: UInt64 = 5_000
        package static let intervalNanosecondsDefault: UInt64 = 5_000_000_000

        /// An update begins when so many changes wait; 0: only queries begin updates.
        package var changesMin = Terms.changesMinDefault
        /// An update begins when so much time has passed and any change waits; 0: time begins none.
        package var intervalNanoseconds = Terms.intervalNanosecondsDefault

        package init() {}

        /// Whether the index follows its documents without a pause.
        package var isContinuous: Bool {
            (1...Terms.changesMinDefault).contains(changesMin)
                && (1...Terms.intervalNanosecondsDefault).contains(intervalNanoseconds)
        }
    }

    package private(set) var terms = Terms()
    /// Whether an update runs.
    private var isUpdating = false
    /// When the last update ended, or the terms were set.
    private var endedAt: UInt64 = 0

    package init() {}

    /// Sets the terms.
    package mutating func set(_ terms: Terms, now: UInt64) {
        guard terms != self.terms else { return }
        self.terms = terms
        endedAt = now
    }

    /// Whether changes are read now; `isNeeded` if a query waits for some, or vBuckets are being
    /// filled.
    package func reads(isNeeded: Bool) -> Bool { terms.isContinuous || isNeeded || isUpdating }

    /// A query requests an update, of which it has nothing itself.
    package mutating func request() { isUpdating = true }

    /// Begins or ends an update; to be called about once a second.
    ///
    /// - Parameters:
    ///   - waiting: The changes that the index does not have.
    ///   - now: The time.
    /// - Returns: Whether changes are to be read.
    package mutating func check(waiting: UInt64, now: UInt64) -> Bool {
        guard !terms.isContinuous else {
            isUpdating = false
            return true
        }
        if isUpdating {
            // New changes arrive all the time, so an update ends when it has read most of them.
            guard waiting < Terms.changesMinDefault else { return true }
            (isUpdating, endedAt) = (false, now)
            return false
        }
        isUpdating = isDue(waiting, now)
        return isUpdating
    }

    private func isDue(_ waiting: UInt64, _ now: UInt64) -> Bool {
        guard terms.changesMin > 0, waiting > 0 else { return false }
        let hasInterval = terms.intervalNanoseconds > 0
        return waiting >= terms.changesMin
            || hasInterval && now >= endedAt &+ terms.intervalNanoseconds
    }
}
