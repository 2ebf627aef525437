package import Orchestration
internal import Vocabulary

/// Quota: in no committed state does the sum of the buckets' quotas exceed the memory quota, which
/// applies to every node.
///
/// It sums independently, since the function under test may be wrong.
package struct QuotaBound {
    /// Bytes above the quota in the previous state.
    private var excess: UInt64 = 0

    package init() {}

    /// Checks the next committed state.
    ///
    /// - Returns: A sentence if the excess grew; nil otherwise.
    package mutating func check(_ state: ClusterState) -> String? {
        var sum: UInt64 = 0
        for bucket in state.buckets { sum += bucket.settings.quota }
        let before = excess
        excess = sum - min(sum, state.memoryQuota)
        guard excess > before else { return nil }
        let buckets = state.buckets.map { "\($0.settings.name) \($0.settings.quota >> 20) MB" }
            .joined(separator: ", ")
        return "index \(state.index) has buckets of \(buckets), but the memory quota is "
            + "\(state.memoryQuota >> 20) MB"
    }
}
