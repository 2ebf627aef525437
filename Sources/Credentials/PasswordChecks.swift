internal import Bytes

/// Runs checks of passwords on one lane, in the order of `PasswordQueue`.
///
/// Neither an event loop nor a lane with other work waits for a check, and all ports of a node share
/// the processor that checks take.
package final class PasswordChecks: Sendable {
    package typealias Work = @Sendable () -> Void

    private let queue = Guarded(PasswordQueue<Work>())
    private let post: @Sendable (@escaping Work) -> Void

    /// - Parameter post: Runs work on the lane, after the work before it.
    package init(post: @escaping @Sendable (@escaping Work) -> Void) {
        self.post = post
    }

    /// As `PasswordQueue.enter`; runs `work` on the lane, or calls `retry` there once there is room.
    package func enter(
        _ login: PasswordLogin,
        isKnown: Bool,
        work: @escaping Work,
        retry: @escaping Work
    ) {
        let entry = queue.withLock {
            $0.enter(login, isKnown: isKnown, work: work, retry: retry)
        }
        if entry == .starts { post { self.run() } }
    }

    /// Runs one check; the lane may have been stopped before the next one.
    private func run() {
        guard let step = queue.withLock({ $0.next() }) else { return }
        for work in step.works { work() }
        step.retry?()
        post { self.run() }
    }
}
