internal import Bytes
internal import JSON

/// The collations of a service: opened on demand, and lent to one commit at a time.
///
/// A collation may be used by one thread at a time. There are as many as indexes that commit at the
/// same time, not as many as indexes.
final class CollationPool: Sendable {
    private let idle = Guarded<[Collation]>([])

    /// A collation that no other caller has; `release` returns it.
    func acquire() -> Collation {
        if let collation = idle.withLock({ $0.popLast() }) { return collation }
        do throws(CollationError) {
            return try Collation()
        } catch {
            // The service has checked at its start that ICU has its data, and Divan's own
            // allocations end the process as well if there is no memory.
            preconditionFailure(error.description)
        }
    }

    func release(_ collation: Collation) { idle.withLock { $0.append(collation) } }
}
