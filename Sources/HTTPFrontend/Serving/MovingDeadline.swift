/// A deadline that is set for every request, and one timer that follows it.
///
/// To schedule and to cancel a timer costs an allocation and a search of the event loop's queue, twice for each
/// request. So a deadline that becomes later, or has no effect any more, leaves the timer alone: when it fires, it
/// is set again for the time that remains. Times are nanoseconds of one clock.
package struct MovingDeadline: Sendable {
    /// The action when the timer fires.
    package enum Firing: Equatable, Sendable {
        /// There is no deadline now, and no timer.
        case nothing
        /// The deadline has moved: set the timer for this time.
        case setTimer(UInt64)
        /// The deadline has passed, and is none any more.
        case expired
    }

    private var deadline: UInt64?
    /// When the timer fires; nil if none is set.
    private var timer: UInt64?

    /// No deadline and no timer.
    package init() {}

    /// Replaces the deadline.
    ///
    /// - Returns: Whether the caller must set the timer for this time, instead of one that it has set.
    package mutating func set(_ time: UInt64) -> Bool {
        deadline = time
        if let timer, timer <= time { return false }
        timer = time
        return true
    }

    /// Removes the deadline; the timer stays.
    package mutating func clear() { deadline = nil }

    /// The timer has fired at the time for which it was set.
    package mutating func fire() -> Firing {
        let fired = timer
        timer = nil
        guard let deadline, let fired else { return .nothing }
        guard deadline > fired else {
            self.deadline = nil
            return .expired
        }
        timer = deadline
        return .setTimer(deadline)
    }
}
