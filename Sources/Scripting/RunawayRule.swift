/// Stops a view whose function uses up its time again and again.
///
/// Skipping a document costs its whole timeout: a million of them would occupy a processor for
/// weeks. A runaway view is not indexed until its map function changes: another function is another
/// index. If the node restarts, the function is tried again.
///
/// - Calls that end processes count as time-outs: each costs two of them.
/// - Time-outs that begin within a second of each other are counted as one sum, so that the list is
///   short; it leaves the window up to a second early.
package struct RunawayRule: Hashable, Sendable {
    /// How one call of the view's function ended.
    package enum Call: Hashable, Sendable {
        /// With rows or an exception.
        case ended
        case timedOut(nanoseconds: UInt64)
        /// It was skipped because it ends processes.
        case endedProcess
        /// It was not made, because `successionMax` calls before it failed in succession.
        case abandoned
    }

    /// Why a view is runaway.
    package enum Cause: Hashable, Sendable {
        case inSuccession(Int)
        case inWindow(nanoseconds: UInt64)
    }

    private struct Sum: Hashable, Sendable {
        let since: UInt64
        var nanoseconds: UInt64
    }

    package static let successionMax = 16
    package static let timeMaxNanoseconds: UInt64 = 30_000_000_000
    package static let windowNanoseconds: UInt64 = 300_000_000_000

    /// Why the view is runaway; nil if it is not.
    package private(set) var cause: Cause?
    private var succession = 0
    private var sums: [Sum] = []

    package init() {}

    /// Counts a call of the function, in the order of the documents.
    ///
    /// - Returns: Whether the view became runaway by this call.
    package mutating func record(_ call: Call, now: UInt64) -> Bool {
        guard cause == nil else { return false }
        switch call {
        case .ended:
            succession = 0
            return false
        case .timedOut(let nanoseconds): add(nanoseconds, now)
        case .endedProcess: break
        case .abandoned: succession = max(succession, RunawayRule.successionMax - 1)
        }
        succession += 1
        let sum = sums.reduce(0) { $0 + $1.nanoseconds }
        if succession >= RunawayRule.successionMax {
            cause = .inSuccession(succession)
        } else if sum >= RunawayRule.timeMaxNanoseconds {
            cause = .inWindow(nanoseconds: sum)
        }
        return cause != nil
    }

    private mutating func add(_ nanoseconds: UInt64, _ now: UInt64) {
        sums.removeAll { $0.since + RunawayRule.windowNanoseconds <= now }
        if let last = sums.last, now - last.since < 1_000_000_000 {
            sums[sums.count - 1].nanoseconds += nanoseconds
        } else {
            sums.append(Sum(since: now, nanoseconds: nanoseconds))
        }
    }
}

extension RunawayRule.Cause: CustomStringConvertible {
    /// A sentence for the author of the view and for queries.
    package var description: String {
        let cure = "Correct the map function and store the design document again."
        switch self {
        case .inSuccession(let count):
            return "Indexing stopped: \(count) calls in succession timed out or used too much "
                + "memory. \(cure)"
        case .inWindow(let nanoseconds):
            let seconds = nanoseconds / 1_000_000_000
            return "Indexing stopped: calls timed out for \(seconds) s within 5 minutes. \(cure)"
        }
    }
}
