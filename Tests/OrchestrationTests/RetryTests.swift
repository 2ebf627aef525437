import Orchestration
import Testing
import Vocabulary

/// Retries of failed rebalances.
@Suite struct RetryTests {
    private func world(attempts: UInt16) -> ClusterWorld {
        var world = ClusterWorld(nodes: 3)
        world.createBucket(rows: [[n(1), n(2)], [n(2), n(3)]])
        var settings = world.state.settings
        settings.retry.isEnabled = attempts > 0
        settings.retry.attemptsMax = max(attempts, 1)
        settings.retry.afterSeconds = 10
        world.apply(.setSettings(settings))
        return world
    }

    @Test func failedRebalanceIsRetriedUpToTheLimit() throws {
        var world = world(attempts: 2)
        world.rebalance(kept: [n(1), n(2)], ejected: [n(3)])
        #expect(world.state.retry == nil)
        world.end("r", .failed)
        let first = try #require(world.state.retry)
        #expect(first.attempt == 1 && first.dueMilliseconds == 12_000)
        #expect(first.kept == [n(1), n(2)] && first.ejected == [n(3)])
        #expect(first.id != "r")
        world.apply(.startRebalance(first.record))
        #expect(world.state.rebalance?.id == first.id && world.state.retry == first)
        world.end(first.id, .failed)
        let second = try #require(world.state.retry)
        #expect(second.attempt == 2 && second.id != first.id)
        world.apply(.startRebalance(second.record))
        world.end(second.id, .failed)
        #expect(world.state.retry == nil)
    }

    @Test(arguments: [RebalanceOutcome.Ending.completed, .stopped])
    func rebalanceThatDidNotFailIsNotRetried(ending: RebalanceOutcome.Ending) throws {
        var world = world(attempts: 1)
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.end("r", .failed)
        let retry = try #require(world.state.retry)
        world.apply(.startRebalance(retry.record))
        world.end(retry.id, ending)
        #expect(world.state.retry == nil)
    }

    @Test func disabledRetryDoesNothing() {
        var world = world(attempts: 0)
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.end("r", .failed)
        #expect(world.state.retry == nil)
        world = self.world(attempts: 1)
        world.rebalance("g", kind: .gracefulFailover, kept: [n(1), n(2)], ejected: [n(3)])
        world.end("g", .failed)
        #expect(world.state.retry == nil)
    }

    @Test func newRebalanceOrCancelRemovesTheRetry() throws {
        var world = world(attempts: 1)
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.end("r", .failed)
        #expect(world.apply(.dropRetry(id: "r")) == .refused(.rebalanceNotRunning))
        let retry = try #require(world.state.retry)
        #expect(world.apply(.dropRetry(id: retry.id)) == .applied([.rebalanceChanged]))
        #expect(world.state.retry == nil)
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.end("r", .failed)
        world.rebalance("own", kept: [n(1), n(2), n(3)])
        #expect(world.state.retry == nil)
        // The first attempt of its own.
        world.end("own", .failed)
        #expect(world.state.retry?.attempt == 1)
    }

    @Test func retryIsRefusedAfterItsNodesWereLost() throws {
        var world = world(attempts: 1)
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: true, mayLose: false)))
        world.end("r", .failed)
        let retry = try #require(world.state.retry)
        #expect(retry.kept == [n(1), n(2)])
        #expect(world.apply(.startRebalance(retry.record)) == .refused(.nodesMismatch))
    }
}
