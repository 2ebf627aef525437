/// Runs `async` procedures on a lane.
///
/// A procedure of several steps ("seal, promote, confirm, undo on failure") is written as an
/// `async` function. Started here, it runs on the lane, also after every suspension. So it shares
/// the lane's state without a lock, and in the simulator it runs in the order that the seed
/// determines.
///
///     let control = LaneExecutor(lane)
///     control.spawn { await procedure.run() }
///
/// - Child tasks and actors without an executor of their own stay on the lane. `Task.detached`,
///   `Task.sleep` and a bare task leave it, and are forbidden in code that the simulator runs.
/// - A procedure that is suspended when its lane ends is never resumed.
package final class LaneExecutor: TaskExecutor, SerialExecutor {
    package let lane: any Lane
    /// Whether an actor has this executor.
    private let hasActor: Bool

    /// - Parameters:
    ///   - lane: Where procedures run.
    ///   - hasActor: Whether an actor has this executor. Without one, a call that does not suspend continues at
    ///     once; otherwise each call of an `async` function is posted to the lane anew, as that of an actor is.
    package init(_ lane: any Lane, hasActor: Bool = true) {
        self.lane = lane
        self.hasActor = hasActor
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        lane.post { [self] in
            guard hasActor else { return job.runSynchronously(on: asUnownedTaskExecutor()) }
            job.runSynchronously(
                isolatedTo: asUnownedSerialExecutor(),
                taskExecutor: asUnownedTaskExecutor()
            )
        }
    }

    package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }

    /// Starts a procedure on the lane; the task returns its result.
    @discardableResult
    package func spawn<Result: Sendable>(
        _ procedure: @escaping @Sendable () async -> Result
    ) -> Task<Result, Never> {
        Task(executorPreference: self) { await procedure() }
    }

    /// Suspends the caller until the work that is posted now is done.
    package func yield() async {
        await withUnsafeContinuation { waiter in
            lane.post { waiter.resume() }
        }
    }

    /// Suspends the caller, by a timer of the lane.
    package func sleep(nanoseconds: UInt64) async {
        await withUnsafeContinuation { sleeper in
            lane.post(after: nanoseconds) { sleeper.resume() }
        }
    }
}
