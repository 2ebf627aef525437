/// Runs `async` procedures on a lane.
///
/// A procedure that reads downwards ("seal, promote, confirm, undo on failure") is an `async`
/// function. Started here, all of it runs on the lane, after every suspension too, so that it shares
/// the lane's state without a lock, and in the simulator runs in the seed's order.
///
///     let control = LaneExecutor(lane)
///     control.spawn { await procedure.run() }
///
/// - Child tasks and actors without an executor of their own stay on the lane; `Task.detached`,
///   `Task.sleep` and a bare task leave it, and are banned where the simulator looks.
/// - A procedure that was suspended when its lane ended is never resumed.
package final class LaneExecutor: TaskExecutor, SerialExecutor {
    package let lane: any Lane

    package init(_ lane: any Lane) {
        self.lane = lane
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        lane.post { [self] in
            job.runSynchronously(
                isolatedTo: asUnownedSerialExecutor(),
                taskExecutor: asUnownedTaskExecutor()
            )
        }
    }

    package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
        UnownedSerialExecutor(ordinary: self)
    }

    /// Starts a procedure.
    @discardableResult
    package func spawn<Result: Sendable>(
        _ procedure: @escaping @Sendable () async -> Result
    ) -> Task<Result, Never> {
        Task(executorPreference: self) { await procedure() }
    }

    /// Lets time pass, by the lane's own timers.
    package func sleep(nanoseconds: UInt64) async {
        await withUnsafeContinuation { sleeper in
            lane.post(after: nanoseconds) { sleeper.resume() }
        }
    }
}
