/// A serial queue of work: one piece at a time, in the order posted.
///
/// Lanes have the names of kv_engine's pools: `reader` (background fetch, warmup), `writer`
/// (flusher), `nonIO` (pagers), `control` (administration). On Linux a lane is a thread, in the
/// simulator an entry in the seeded run queue.
package protocol Lane: AnyObject, Sendable {
    var name: String { get }
    func post(_ work: @escaping @Sendable () -> Void)
    /// Runs `work` once, `nanoseconds` from now or slightly later.
    @discardableResult
    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer
    /// Runs the work that was posted and due before this call, then ends the lane. Must not be
    /// called on the lane itself.
    func stop()
}

/// A handle that cancels delayed work.
package struct LaneTimer: Sendable {
    package let cancel: @Sendable () -> Void

    package init(cancel: @escaping @Sendable () -> Void) {
        self.cancel = cancel
    }
}

/// Makes lanes.
package protocol LaneFactory: Sendable {
    /// The number of reactors that serve connections, each on its own core; numbered from 0.
    var reactorCount: Int { get }
    /// Makes a lane.
    ///
    /// An idle lane is a blocked thread and takes no processor time. A patient lane yields to
    /// others if there are fewer cores than work, but still makes progress.
    func makeLane(_ name: String, isPatient: Bool) -> any Lane
}

extension LaneFactory {
    package func makeLane(_ name: String) -> any Lane { makeLane(name, isPatient: false) }
}
