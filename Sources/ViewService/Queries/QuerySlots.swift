internal import Bytes

/// Bounds the view queries that a node coordinates at once, and so the memory of their rows.
///
/// - A slot is free again when it is released, or when its last reference is gone.
package final class QuerySlots: Sendable {
    /// Under 1 MiB each in a cluster of four nodes: at most 64 MiB.
    package static let countMax = 64

    private let used = Guarded(0)
    private let countMax: Int

    package init(_ countMax: Int = QuerySlots.countMax) {
        self.countMax = countMax
    }

    /// A slot for one query; nil if all are in use.
    package func tryAcquire() -> Slot? {
        let isFree = used.withLock { used in
            guard used < countMax else { return false }
            used += 1
            return true
        }
        return isFree ? Slot(self) : nil
    }

    /// Slots in use.
    package var usedCount: Int { used.withLock { $0 } }

    /// The right to run one query.
    package final class Slot: Sendable {
        private let slots: QuerySlots
        private let isReleased = Guarded(false)

        fileprivate init(_ slots: QuerySlots) {
            self.slots = slots
        }

        /// Frees the slot; a second call has no effect.
        package func release() {
            let isFirst = isReleased.withLock { isReleased in
                defer { isReleased = true }
                return !isReleased
            }
            if isFirst { slots.used.withLock { $0 -= 1 } }
        }

        deinit { release() }
    }
}
