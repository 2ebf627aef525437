package import Orchestration
internal import Vocabulary

/// Quota: in no agreed state do the buckets have more memory together than the memory quota, which
/// holds on every node.
///
/// Sums by itself: the function that the log decides by can be what is wrong.
package struct QuotaBound {
    /// Bytes beyond the quota in the state before.
    private var excess: UInt64 = 0

    package init() {}

    /// Looks at the state of the next index.
    ///
    /// - Returns: What is wrong with it that was not wrong before; nil if nothing is.
    package mutating func check(_ state: ClusterState) -> String? {
        var sum: UInt64 = 0
        for bucket in state.buckets { sum += bucket.settings.quota }
        let before = excess
        excess = sum - min(sum, state.memoryQuota)
        guard excess > before else { return nil }
        let buckets = state.buckets.map { "\($0.settings.name) \($0.settings.quota >> 20) MB" }
            .joined(separator: ", ")
        return "index \(state.index) gives \(buckets), and the memory quota is "
            + "\(state.memoryQuota >> 20) MB"
    }
}
