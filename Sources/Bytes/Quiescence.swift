internal import CPrefetch

/// Tells when memory that readers may still be looking at can be freed.
///
/// The data path prefetches tables and items before it holds a lock, so whatever it may look at is
/// not freed when it is replaced but retired, and freed once every reactor has been through the
/// end of a turn since (the idea of RCU, McKenney and Slingwine 1998). A reactor pays two stores
/// and a fence a turn, whatever the number of requests in it.
///
/// To retire: unlink the memory, take a `snapshot()`, keep both; free when `isPast(snapshot)`.
///
/// - A reactor's counter is odd while it is in a turn and even while it is asleep or stopped.
/// - What a reactor read without a lock in one turn it does not remember in the next.
package final class Quiescence: @unchecked Sendable {  // tidy:allow atomic counters are for sharing
    /// Two cache lines a counter: processors fetch lines in pairs.
    private static let stride = 128

    package let reactorCount: Int
    private let counters: UnsafeMutableRawPointer

    package init(reactorCount: Int) {
        precondition(reactorCount > 0, "somebody has to take turns")
        self.reactorCount = reactorCount
        let size = reactorCount * Quiescence.stride
        counters = Memory.allocate(size)
        counters.initializeMemory(as: UInt8.self, repeating: 0, count: size)
    }

    deinit { Memory.free(counters) }

    /// The reactor's turn begins: from here on it may look at shared memory.
    package func begin(_ reactor: Int) {
        let counter = counter(reactor)
        let turn = divan_load_relaxed(counter)
        precondition(turn & 1 == 0, "a turn cannot begin within a turn")
        divan_store_relaxed(counter, turn + 1)
        // Without the fence a look at shared memory could overtake the store, and a snapshot taken
        // in between would say that nobody is looking.
        divan_fence()
    }

    /// The reactor's turn ends: it no longer holds on to anything it looked at.
    package func end(_ reactor: Int) {
        let counter = counter(reactor)
        let turn = divan_load_relaxed(counter)
        precondition(turn & 1 == 1, "a turn ends once")
        divan_store_release(counter, turn + 1)
    }

    /// The turns under way now, to be taken after the memory was unlinked.
    package func snapshot() -> [UInt64] {
        divan_fence()
        return (0..<reactorCount).map { divan_load_acquire(counter($0)) }
    }

    /// Whether every turn that was under way at `snapshot` has ended.
    package func isPast(_ snapshot: [UInt64]) -> Bool {
        precondition(snapshot.count == reactorCount, "a snapshot belongs to its own quiescence")
        for (reactor, turn) in snapshot.enumerated()
        where turn & 1 == 1 && divan_load_acquire(counter(reactor)) == turn {
            return false
        }
        return true
    }

    private func counter(_ reactor: Int) -> UnsafeMutablePointer<UInt64> {
        precondition(reactor >= 0 && reactor < reactorCount, "there is no reactor \(reactor)")
        return (counters + reactor * Quiescence.stride).assumingMemoryBound(to: UInt64.self)
    }
}
