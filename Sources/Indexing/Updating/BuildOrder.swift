/// Which indexes of a node are built at a time, as `maxParallelIndexers` limits them.
///
/// An index that is built reads all documents of its vBuckets. Many at once would delay each other,
/// and none of them would be complete soon. Those that wait begin in the order of their requests.
package struct BuildOrder: Sendable {
    private var buildsMax: Int
    private var building: Set<UInt64> = []
    /// In the order of their requests.
    private var waiting: [UInt64] = []

    /// An order in which `buildsMax` builds run at a time, at least one.
    package init(buildsMax: Int) { self.buildsMax = max(1, buildsMax) }

    /// Requests a build under a number of its own.
    ///
    /// - Returns: Whether it begins now; otherwise a later call returns its number.
    package mutating func enter(_ number: UInt64) -> Bool {
        guard building.count < buildsMax else {
            waiting.append(number)
            return false
        }
        building.insert(number)
        return true
    }

    /// A build has ended, or is not needed any more.
    ///
    /// - Returns: The builds that begin now.
    package mutating func leave(_ number: UInt64) -> [UInt64] {
        if building.remove(number) == nil { waiting.removeAll { $0 == number } }
        return beginWaiting()
    }

    /// Sets how many builds run at a time.
    ///
    /// Those that run continue.
    ///
    /// - Returns: The builds that begin now.
    package mutating func limit(to buildsMax: Int) -> [UInt64] {
        self.buildsMax = max(1, buildsMax)
        return beginWaiting()
    }

    /// Whether a build has begun and not left.
    package func isBuilding(_ number: UInt64) -> Bool { building.contains(number) }

    private mutating func beginWaiting() -> [UInt64] {
        let count = min(waiting.count, max(0, buildsMax - building.count))
        let begun = Array(waiting.prefix(count))
        waiting.removeFirst(count)
        building.formUnion(begun)
        return begun
    }
}
