internal import Vocabulary

/// Which features the cluster may use.
extension ClusterState {
    /// Raises the agreed feature level.
    ///
    /// The leader proposes what all members announced as far as it knew. If a member announced less
    /// in an earlier entry, or a node that understands less was added by one, the level stays.
    mutating func raise(to level: FeatureLevel) -> ClusterOutcome {
        guard level > featureLevel else { return .refused(.changedMeanwhile) }
        guard level <= announcedLevel else { return .refused(.levelTooHigh) }
        featureLevel = level
        return .applied([.nodesChanged])
    }
}
