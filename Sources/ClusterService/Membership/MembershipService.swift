internal import Bytes
internal import Orchestration

/// Requests about the nodes of the cluster: adding, failing over, rebalance, ejecting, server groups.
///
/// A request can be sent to any node.
package final class MembershipService: Sendable {
    struct Core {
        /// Addresses from which a request to join is being checked.
        var joinLogins: Set<String> = []
        /// The rebalance report that was last shown; reported progress never decreases.
        var shown: (rebalance: String, report: RebalanceReport)?
    }

    let cluster: Cluster
    let users: UserService
    let addresses: AddressService
    let engagement: EngagementService
    let epochs: EpochService
    let core = Guarded(Core())

    init(_ epochs: EpochService, _ users: UserService) {
        cluster = epochs.cluster
        engagement = epochs.engagement
        addresses = engagement.addresses
        (self.epochs, self.users) = (epochs, users)
    }
}
