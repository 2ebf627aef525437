/// The requests that changed a view, and which of its definitions may answer a query.
///
/// Requests follow each other: one is made when the one before was answered, or has been given up. Such a
/// one may still take effect at any later time, so its definition may answer from then on.
package struct DefinitionHistory: Sendable {
    /// The oldest requests whose definitions may answer a query that is asked now; nil: any.
    package struct Bounds: Hashable, Sendable {
        /// With `stale=false`.
        package var current: Int?
        /// With any other value.
        package var complete: Int?
    }

    private struct Request {
        /// Nil: the design document is deleted.
        let version: Int?
        let submittedAt: UInt64
        /// When it was known to have taken effect; nil unless that was before the next request was made.
        var confirmedAt: UInt64?

        var isInOrder: Bool { confirmedAt != nil }
    }

    private var requests: [Request] = []
    package private(set) var bounds = Bounds()

    package init() {}

    /// - Parameters:
    ///   - version: Nil: the design document is deleted.
    ///   - time: When the request is made.
    /// - Returns: The request's number.
    package mutating func submit(_ version: Int?, at time: UInt64) -> Int {
        requests.append(Request(version: version, submittedAt: time))
        return requests.count - 1
    }

    /// The request has taken effect, as is known at `time`: it was acknowledged, or is in an agreed state.
    package mutating func confirm(_ number: Int, at time: UInt64) {
        guard requests.indices.contains(number) else { return }
        // The order of this request and a later one is not known.
        guard number == requests.count - 1 else { return }
        guard !requests[number].isInOrder else { return }
        requests[number].confirmedAt = time
        bounds.current = number
    }

    /// When the newest request was known to have taken effect; `number` is the request of the definition
    /// that the agreed state has.
    ///
    /// - Returns: Nil if that is not the newest request: a later one may take effect at any time, or an
    ///   earlier one has done so late.
    package func unchangedSince(_ number: Int) -> UInt64? {
        number == requests.count - 1 ? requests.last?.confirmedAt : nil
    }

    /// All nodes have found the definition of this request complete on all nodes.
    package mutating func complete(_ number: Int) {
        guard requests.indices.contains(number), requests[number].isInOrder else { return }
        bounds.complete = max(bounds.complete ?? 0, number)
    }

    /// - Parameters:
    ///   - oldest: The bound when the query was asked; nil: none.
    ///   - time: When it was answered.
    /// - Returns: The versions that may have answered, the newest first.
    package func versions(since oldest: Int?, until time: UInt64) -> [Int] {
        var found: [Int] = []
        for (number, request) in requests.enumerated().reversed()
        where request.submittedAt <= time && (!request.isInOrder || number >= oldest ?? 0) {
            guard let version = request.version, !found.contains(version) else { continue }
            found.append(version)
        }
        return found
    }
}
