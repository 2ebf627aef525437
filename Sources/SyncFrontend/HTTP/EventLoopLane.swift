internal import Bytes
package import NIOCore
internal import NIOPosix
package import Seams

/// A lane that is one event loop with a thread of its own.
///
/// Connections, databases and the store of a gateway belong to one such loop: a request is served without a
/// lock and without another thread.
package final class EventLoopLane: Lane {
    package let name: String
    package let loop: any EventLoop
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private let timers = Guarded(Timers())

    /// Delayed work by the time at which it is due.
    ///
    /// The event loop cancels a timer in a time that is linear in the number of its timers, and each feed that waits
    /// has one. So work that is due at about the same time shares one, which is never cancelled.
    private struct Timers {
        var isStopped = false
        var numbers = 0
        var work: [UInt64: [Int: @Sendable () -> Void]] = [:]

        /// When work is due that may run a 64th later, on the clock of the event loop.
        static func due(after nanoseconds: UInt64) -> UInt64 {
            let exact = NIODeadline.now() + .nanoseconds(Int64(clamping: nanoseconds))
            let bits = 63 - max(nanoseconds / 64, 1).leadingZeroBitCount
            let grain = UInt64(1) << UInt64(bits)
            return (exact.uptimeNanoseconds + grain - 1) / grain * grain
        }
    }

    package init(_ name: String) {
        self.name = name
        loop = group.next()
    }

    /// Whether the caller runs on the lane.
    package var isCurrent: Bool { loop.inEventLoop }

    package func post(_ work: @escaping @Sendable () -> Void) {
        timers.withLock { if !$0.isStopped { loop.execute(work) } }
    }

    @discardableResult
    package func post(
        after nanoseconds: UInt64,
        _ work: @escaping @Sendable () -> Void
    ) -> LaneTimer {
        let due = Timers.due(after: nanoseconds)
        return timers.withLock { timers in
            guard !timers.isStopped else { return LaneTimer {} }
            if timers.work[due] == nil {
                loop.scheduleTask(deadline: .uptimeNanoseconds(due)) { [self] in run(due) }
            }
            timers.numbers += 1
            let number = timers.numbers
            timers.work[due, default: [:]][number] = work
            return LaneTimer { [self] in
                // The closure is freed behind the lock: its objects may post or cancel work when they end.
                _ = self.timers.withLock { $0.work[due]?.removeValue(forKey: number) }
            }
        }
    }

    /// Runs the work of one time; what one cancels of the others does not run.
    private func run(_ due: UInt64) {
        let numbers = timers.withLock { $0.work[due]?.keys.sorted() ?? [] }
        for number in numbers {
            timers.withLock { $0.work[due]?.removeValue(forKey: number) }?()
        }
        timers.withLock { $0.work[due] = nil }
    }

    /// Runs `body` on the lane, and waits for it on the caller's thread.
    ///
    /// - Throws: The error of `body`.
    package func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws
        -> Value
    {
        precondition(!isCurrent, "a lane cannot wait for itself")
        return try loop.submit(body).wait()
    }

    package func stop() {
        end()
        // It fails only if the group was shut down before.
        try? group.syncShutdownGracefully()
    }

    /// Ends the work of the lane; its thread waits for the end of the process.
    ///
    /// NIO shuts an event loop down with the help of libdispatch, whose worker threads read `/proc`: in a confined
    /// process that is a crash.
    func end() {
        precondition(!isCurrent, "a lane is stopped by another thread")
        timers.withLock { $0.isStopped = true }
        // Work that is due runs before this. It fails only if the group was shut down before.
        try? loop.submit {}.wait()
        _ = timers.withLock { timers in
            defer { timers.work = [:] }
            return timers.work
        }
    }
}
