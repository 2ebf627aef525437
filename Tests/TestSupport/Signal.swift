internal import Bytes
internal import Glibc

/// Values of other threads, in order, that a test waits for.
package final class Signal<Value: Sendable>: Sendable {
    private let state = Guarded<[Value]>([])

    package init() {}

    package func send(_ value: Value) { state.withLock { $0.append(value) } }

    /// A copy that shares no storage.
    ///
    /// ThreadSanitizer does not detect that a shared copy is dropped, and reports the next `send` as
    /// a race with its reader.
    package var values: [Value] { state.withLock { $0.map { $0 } } }

    /// The wanted values so far once there are `count` of them; fewer after a minute.
    @discardableResult
    package func wait(
        _ count: Int = 1,
        where isWanted: @Sendable (Value) -> Bool = { _ in true }
    ) async -> [Value] {
        // Counted without a copy, for the same reason.
        _ = await eventually { state.withLock { $0.count(where: isWanted) } >= count }
        return values.filter(isWanted)
    }
}

/// A condition did not become true in time.
package struct WaitedInVain: Error, CustomStringConvertible {
    package let description: String
}

/// Waiting distinguishes an answer from a hang; no test is to wait so long.
private let attemptsMax = 12_000
private let pauseMilliseconds = 5

/// Waits until a condition is true; returns false after a minute.
package func eventually(
    isolation: isolated (any Actor)? = #isolation,
    _ isTrue: () async -> Bool
) async -> Bool {
    for _ in 0..<attemptsMax {
        if await isTrue() { return true }
        try? await Task.sleep(for: .milliseconds(pauseMilliseconds))
    }
    return false
}

/// Blocks the test's thread until a condition is true.
///
/// - Throws: `WaitedInVain` after a minute, or the condition's error.
package func waitUntil(_ what: String, _ isTrue: () throws -> Bool) throws {
    for _ in 0..<attemptsMax {
        if try isTrue() { return }
        usleep(UInt32(pauseMilliseconds) * 1_000)
    }
    throw WaitedInVain(description: "waited in vain until \(what)")
}

/// Waits until a condition is true.
///
/// - Throws: `WaitedInVain` after a minute, or `CancellationError`.
package func waitUntil(
    isolation: isolated (any Actor)? = #isolation,
    _ what: String,
    _ isTrue: () -> Bool
) async throws {
    guard await eventually(isTrue) else {
        throw WaitedInVain(description: "waited in vain until \(what)")
    }
}
