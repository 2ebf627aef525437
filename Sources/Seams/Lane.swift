/// A serial place where work runs: one piece at a time, in the order posted.
///
/// Lanes have the names of kv_engine's pools: `reader` (background fetch, warmup), `writer`
/// (flusher), `nonIO` (pagers), `control` (administration). On Linux a lane is a thread, in the
/// simulator an entry in the seeded run queue.
package protocol Lane: AnyObject, Sendable {
    var name: String { get }
    func post(_ work: @escaping @Sendable () -> Void)
    /// Runs `work` once, `nanoseconds` from now or a little later.
    @discardableResult
    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer
    /// Runs what was posted and due before this call, then ends the lane. Called from outside it.
    func stop()
}

/// A handle to work that is to run later.
package struct LaneTimer: Sendable {
    package let cancel: @Sendable () -> Void

    package init(cancel: @escaping @Sendable () -> Void) {
        self.cancel = cancel
    }
}

/// Makes lanes.
package protocol LaneFactory: Sendable {
    /// How many reactors serve connections, numbered from 0; each works on its own core.
    var reactorCount: Int { get }
    /// A new lane; an idle one costs a blocked thread and wakes nobody. A patient lane lets the
    /// others go first where there are fewer cores than work, and still gets its part.
    func makeLane(_ name: String, isPatient: Bool) -> any Lane
}

extension LaneFactory {
    package func makeLane(_ name: String) -> any Lane { makeLane(name, isPatient: false) }
}
