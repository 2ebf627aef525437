import Bytes
import Foundation
import Testing
import ViewService

/// Steps of a query that several threads post.
@Suite(.timeLimit(.minutes(2))) struct StepQueueTests {
    @Test func stepRunsOnThePostingThreadBeforePostReturns() {
        let queue = StepQueue()
        let thread = Guarded<Thread?>(nil)
        queue.post { thread.withLock { $0 = Thread.current } }
        #expect(thread.withLock { $0 } === Thread.current)
    }

    @Test func stepOfAStepRunsAfterIt() {
        let queue = StepQueue()
        let events = Guarded<[Int]>([])
        queue.post {
            queue.post {
                events.withLock { $0.append(3) }
                queue.post { events.withLock { $0.append(5) } }
            }
            queue.post { events.withLock { $0.append(4) } }
            events.withLock { $0 += [1, 2] }
        }
        #expect(events.withLock { $0 } == [1, 2, 3, 4, 5])
    }

    @Test func stepsOfManyThreadsRunOneAtATimeAndEachOnce() async {
        let queue = StepQueue()
        let inside = Guarded((now: 0, most: 0))
        let seen = Guarded<[[Int]]>(Array(repeating: [], count: 4))
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    for number in 0..<2_000 {
                        queue.post {
                            inside.withLock { inside in
                                inside.now += 1
                                inside.most = max(inside.most, inside.now)
                            }
                            seen.withLock { $0[thread].append(number) }
                            inside.withLock { $0.now -= 1 }
                        }
                    }
                }
            }
        }
        // A thread may still run the steps of the others: this one runs behind them.
        let isOver = Guarded(false)
        queue.post { isOver.withLock { $0 = true } }
        let end = Date().addingTimeInterval(60)
        while !isOver.withLock({ $0 }), Date() < end { await Task.yield() }
        #expect(seen.withLock { $0 } == Array(repeating: Array(0..<2_000), count: 4))
        #expect(inside.withLock { $0.most } == 1)
    }
}
