internal import CPrefetch

/// Decides when memory that reactors may still access without a lock can be freed (epoch-based
/// reclamation).
///
/// The data path prefetches tables and items before it holds a lock. Replaced memory is therefore
/// not freed but retired, and freed once every reactor has ended the turn it was in (the idea of
/// RCU, McKenney and Slingwine 1998). This costs a reactor two stores and a fence per turn,
/// whatever the number of requests in it.
///
/// To retire memory: unlink it, take a `snapshot()`, keep both; free it when `isPast(snapshot)`.
///
/// - A reactor's counter is odd during a turn, and even while the reactor sleeps or is stopped.
/// - A reactor keeps no address that it read without a lock beyond the end of the turn.
package final class Quiescence: @unchecked Sendable {  // tidy:allow atomic counters are for sharing
    /// Each counter has two cache lines, because processors fetch lines in pairs.
    private static let stride = 128

    package let reactorCount: Int
    private let counters: UnsafeMutableRawPointer

    package init(reactorCount: Int) {
        precondition(reactorCount > 0, "there is at least one reactor")
        self.reactorCount = reactorCount
        let size = reactorCount * Quiescence.stride
        counters = Memory.allocate(size)
        counters.initializeMemory(as: UInt8.self, repeating: 0, count: size)
    }

    deinit { Memory.free(counters) }

    /// Begins the reactor's turn: from here on it may access shared memory.
    package func begin(_ reactor: Int) {
        let counter = counter(reactor)
        let turn = divan_load_relaxed(counter)
        precondition(turn & 1 == 0, "turns do not nest")
        divan_store_relaxed(counter, turn + 1)
        // Without the fence a read of shared memory could overtake the store. A snapshot taken in
        // between would miss this turn.
        divan_fence()
    }

    /// Ends the reactor's turn: it keeps no address of shared memory.
    package func end(_ reactor: Int) {
        let counter = counter(reactor)
        let turn = divan_load_relaxed(counter)
        precondition(turn & 1 == 1, "only a turn that has begun can end")
        divan_store_release(counter, turn + 1)
    }

    /// The current counter of each reactor; taken after memory was unlinked.
    package func snapshot() -> [UInt64] {
        divan_fence()
        return (0..<reactorCount).map { divan_load_acquire(counter($0)) }
    }

    /// Whether every turn that was under way at `snapshot` has ended.
    package func isPast(_ snapshot: [UInt64]) -> Bool {
        precondition(snapshot.count == reactorCount, "a snapshot has a counter for each reactor")
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
