/// Ids of documents in order of their bytes: 8 to 16 bytes each, besides the ids themselves.
///
/// A list of short sorted parts: an insertion moves at most one part.
package struct OrderedIDs: Sendable {
    private static let partMax = 512

    /// No part is empty.
    private var parts: [[[UInt8]]] = []
    package private(set) var count = 0

    package init() {}

    /// The first ids that are not below `first`.
    package func ids(from first: [UInt8] = [], atMost limit: Int = .max) -> [[UInt8]] {
        var found: [[UInt8]] = []
        var part = partIndex(of: first)
        var index = parts.isEmpty ? 0 : position(of: first, in: part)
        while part < parts.count, found.count < limit {
            let end = min(parts[part].count, index + (limit - found.count))
            found += parts[part][index..<end]
            part += 1
            index = 0
        }
        return found
    }

    /// The last ids that are below `bound`, in descending order; nil is above all ids.
    package func ids(below bound: [UInt8]?, atMost limit: Int) -> [[UInt8]] {
        guard !parts.isEmpty else { return [] }
        var found: [[UInt8]] = []
        var part = bound.map { partIndex(of: $0) } ?? parts.count - 1
        var end = bound.map { position(of: $0, in: part) } ?? parts[part].count
        while found.count < limit {
            let start = max(0, end - (limit - found.count))
            found += parts[part][start..<end].reversed()
            guard part > 0 else { break }
            part -= 1
            end = parts[part].count
        }
        return found
    }

    package mutating func insert(_ id: [UInt8]) {
        if parts.isEmpty { parts.append([]) }
        let part = partIndex(of: id)
        let index = position(of: id, in: part)
        if index < parts[part].count, parts[part][index] == id { return }
        parts[part].insert(id, at: index)
        count += 1
        guard parts[part].count > Self.partMax else { return }
        let half = parts[part].count / 2
        parts.insert(Array(parts[part][half...]), at: part + 1)
        parts[part].removeLast(parts[part].count - half)
    }

    package mutating func remove(_ id: [UInt8]) {
        guard !parts.isEmpty else { return }
        let part = partIndex(of: id)
        let index = position(of: id, in: part)
        guard index < parts[part].count, parts[part][index] == id else { return }
        parts[part].remove(at: index)
        count -= 1
        if parts[part].isEmpty { parts.remove(at: part) }
    }

    /// The last part whose first id is not above `id`, or the first part.
    private func partIndex(of id: [UInt8]) -> Int {
        var low = 1
        var high = max(parts.count, 1)
        while low < high {
            let middle = (low + high) / 2
            if id.lexicographicallyPrecedes(parts[middle][0]) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        return low - 1
    }

    private func position(of id: [UInt8], in part: Int) -> Int {
        var low = 0
        var high = parts[part].count
        while low < high {
            let middle = (low + high) / 2
            if parts[part][middle].lexicographicallyPrecedes(id) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low
    }
}
