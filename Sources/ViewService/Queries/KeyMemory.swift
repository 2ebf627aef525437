internal import Bytes
package import Indexing

/// The memory of the keys of all view queries of a node, shared by threads; `KeyBudget` decides.
package final class KeyMemory: Sendable {
    private let budget: Guarded<KeyBudget>

    package init(_ budget: KeyBudget = KeyBudget()) {
        self.budget = Guarded(budget)
    }

    /// Bytes of the queries that are counted now.
    package var usedBytes: Int { budget.withLock { $0.usedBytes } }

    /// Reserves memory for the keys of one query.
    ///
    /// - Parameters:
    ///   - bytes: What the keys need, by estimate.
    ///   - origin: Where the query comes from.
    /// - Returns: The reservation, which lasts as long as the query has its keys; nil if the memory does not
    ///   suffice.
    package func reserve(_ bytes: Int, for origin: KeyBudget.Origin) -> Reservation? {
        // Most queries: without the lock that all connections share.
        guard KeyBudget.counts(bytes) else { return Reservation(nil, 0, origin: origin) }
        guard budget.withLock({ $0.reserve(bytes, for: origin) }) else { return nil }
        return Reservation(self, bytes, origin: origin)
    }

    /// The memory of one query's keys; it is free again when the last reference is gone.
    package final class Reservation: Sendable {
        private let memory: KeyMemory?
        private let bytes: Int
        private let origin: KeyBudget.Origin

        fileprivate init(_ memory: KeyMemory?, _ bytes: Int, origin: KeyBudget.Origin) {
            self.memory = memory
            self.bytes = bytes
            self.origin = origin
        }

        deinit {
            memory?.budget.withLock { $0.release(bytes, for: origin) }
        }
    }
}
