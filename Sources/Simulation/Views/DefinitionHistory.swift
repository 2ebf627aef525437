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
        /// Whether it took effect before the next request was made.
        var isInOrder = false
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

    /// The request has taken effect: it was acknowledged, or is in an agreed state.
    package mutating func confirm(_ number: Int) {
        guard requests.indices.contains(number) else { return }
        // Behind a later request, their order is not known.
        guard number == requests.count - 1 else { return }
        requests[number].isInOrder = true
        bounds.current = number
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
