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
    private let isStopped = Guarded(false)

    package init(_ name: String) {
        self.name = name
        loop = group.next()
    }

    /// Whether the caller runs on the lane.
    package var isCurrent: Bool { loop.inEventLoop }

    package func post(_ work: @escaping @Sendable () -> Void) {
        isStopped.withLock { if !$0 { loop.execute(work) } }
    }

    @discardableResult
    package func post(
        after nanoseconds: UInt64,
        _ work: @escaping @Sendable () -> Void
    ) -> LaneTimer {
        let delay = TimeAmount.nanoseconds(Int64(clamping: nanoseconds))
        return isStopped.withLock { isStopped in
            guard !isStopped else { return LaneTimer {} }
            let timer = loop.scheduleTask(in: delay, work)
            return LaneTimer { timer.cancel() }
        }
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
        precondition(!isCurrent, "a lane is stopped by another thread")
        isStopped.withLock { $0 = true }
        // Work that is due runs before this.
        try? loop.submit {}.wait()
        // It fails only if the group was shut down before.
        try? group.syncShutdownGracefully()
    }
}
