import Glibc
import LinuxPlatform
import Testing

/// Tasks run on threads that need no descriptor.
///
/// The threads stay for the rest of the test process; other tests run on them as well.
@Suite struct TaskThreadsTests {
    @Test func tasksAndSleepsRunOnOwnThreads() async throws {
        TaskThreads.start(count: 2)
        await Task.yield()
        let results = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<64 {
                group.addTask {
                    if number % 2 == 0 { try? await Task.sleep(nanoseconds: 1_000_000) }
                    if number % 3 == 0 { try? await Task.sleep(for: .milliseconds(1)) }
                    return TaskThreads.isCurrent
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results.count == 64)
        #expect(results.allSatisfy { $0 })
    }

    @Test func sleepEndsNoEarlierThanItsDeadline() async throws {
        TaskThreads.start(count: 2)
        let clock = ContinuousClock()
        let began = clock.now
        try await Task.sleep(for: .milliseconds(50))
        #expect(clock.now - began >= .milliseconds(50))
        let suspending = SuspendingClock()
        let start = suspending.now
        try await Task.sleep(until: start + .milliseconds(50), clock: suspending)
        #expect(suspending.now - start >= .milliseconds(50))
    }
}
