internal import Dispatch

/// Runs checks of passwords on a thread of their own.
///
/// A check takes milliseconds on purpose. On an event loop it would stall the loop's connections, and on
/// Swift's threads, of which there are as many as cores, wrong passwords in number would stall every
/// other request. One thread bounds what wrong passwords cost: a core at most. Right passwords are cached
/// after their first check and wait for nothing.
final class PasswordChecks: Sendable {
    private let queue = DispatchQueue(label: "divan.passwords")

    /// Runs `check` after the checks before it, and returns its result.
    func run<Result: Sendable>(_ check: @escaping @Sendable () -> Result) async -> Result {
        await withCheckedContinuation { caller in
            queue.async { caller.resume(returning: check()) }
        }
    }
}
