package import Orchestration
package import Vocabulary

/// Level: the agreed feature level never falls, and no member of the cluster understands less.
///
/// Compares with the levels that processes announce, because the records in the state may be wrong.
package struct LevelBound {
    private var newest: (age: ClusterState.Age, level: FeatureLevel, hasNodes: Bool)?
    /// How often the level was raised; the first node of a cluster sets it, and does not raise it.
    package private(set) var raises = 0

    package init() {}

    /// Checks a state that some node has applied.
    ///
    /// - Parameters:
    ///   - state: The state.
    ///   - announced: By host, the level that the process there announces; hosts without one are
    ///     left out.
    /// - Returns: A sentence on the violation; nil if there is none.
    package mutating func check(
        _ state: ClusterState,
        announced: [String: FeatureLevel]
    ) -> String? {
        let level = state.featureLevel
        if let newest, state.age >= newest.age {
            guard level >= newest.level else {
                return "index \(state.index) has level \(level.number) after \(newest.level.number)"
            }
            if newest.hasNodes, level > newest.level { raises += 1 }
        }
        if newest.map({ state.age >= $0.age }) ?? true {
            newest = (state.age, level, !state.nodes.isEmpty)
        }
        for node in state.members {
            let least = min(node.level, announced[node.host] ?? node.level)
            guard least < level else { continue }
            return "index \(state.index) has level \(level.number), and \(node.host) announces "
                + "\(least.number)"
        }
        return nil
    }
}
