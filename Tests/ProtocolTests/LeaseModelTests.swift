import Testing

/// The lease that voters promise: no node is deposed while it assumes to hold its lease.
@Suite struct LeaseModelTests {
    @Test func deposedNodeHoldsNoLeaseInRandomWalks() {
        let bad = (UInt64(0)..<20_000).first { LeaseWorld.walk(seed: $0) != nil }
        #expect(bad == nil)
    }

    /// The walks grant leases, depose nodes and change voters often enough to be evidence.
    @Test func randomWalksGrantLeasesDeposeNodesAndChangeVoters() {
        var leases = 0
        var deposed = 0
        var changes = 0
        for seed in UInt64(0)..<200 {
            var world = LeaseWorld(seed: seed, mistake: .none)
            for step in 0..<1_500 {
                world.step()
                if world.hasLease(step & 1) { leases += 1 }
            }
            deposed += (0..<2).filter { world.deposedAt[$0] > 0 }.count
            changes += world.members[0].configuration.index > 1 ? 1 : 0
        }
        #expect(leases > 200 * 1_500 / 10)
        #expect(deposed > 20)
        #expect(changes > 20)
    }

    @Test(arguments: LeaseMistake.allCases.filter { $0 != .none })
    func omittedLeaseRuleIsDetected(_ mistake: LeaseMistake) {
        let found = (UInt64(0)..<100_000).first {
            LeaseWorld.walk(seed: $0, mistake: mistake) == .leaseOfTheDeposed
        }
        #expect(found != nil)
    }
}
