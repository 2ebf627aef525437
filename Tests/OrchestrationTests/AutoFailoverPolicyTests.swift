import Orchestration
import Testing
import Vocabulary

/// When silent nodes are failed over, and the reasons that an operator reads otherwise.
@Suite struct AutoFailoverPolicyTests {
    /// A cluster whose leader is node 1; times in milliseconds, the timeout one second.
    private struct World {
        var settings = AutoFailoverSettings()
        var situation: FailoverSituation
        var now: UInt64 = 10_000
        var silent: [UInt16: UInt64] = [:]
        /// By silent node: milliseconds of the silence through which its machine has refused connections, of the
        /// leader and of the others.
        var refused: [UInt16: (leader: UInt64, others: UInt64)] = [:]
        /// Nodes that answer but send no suspicions.
        var mute: Set<UInt16> = []

        init(_ count: UInt16, groups: [String] = []) {
            settings.timeoutSeconds = 1
            situation = FailoverSituation(
                members: (1...count).map {
                    let group = groups.isEmpty ? "" : groups[Int($0 - 1)]
                    return FailoverSituation.Member(NodeNumber($0), group: group)
                },
                leaderSinceNanoseconds: 0
            )
        }

        var nodes: [NodeNumber] { situation.members.map(\.node) }

        var table: FailureTable {
            var table = FailureTable(of: NodeNumber(1), now: 0)
            let suspicions = silent.sorted { $0.key < $1.key }.map {
                FailureTable.Suspicion(
                    node: NodeNumber($0.key),
                    silentNanoseconds: $0.value * 1_000_000,
                    refusedNanoseconds: (refused[$0.key]?.others ?? 0) * 1_000_000
                )
            }
            for node in nodes {
                let heardAt = now - (silent[node.value] ?? 50)
                let sendsSuspicions = silent[node.value] == nil && !mute.contains(node.value)
                table.heard(
                    node,
                    suspicions: sendsSuspicions ? suspicions : nil,
                    now: heardAt * 1_000_000
                )
                if let length = refused[node.value]?.leader, length > 0 {
                    table.refused(node, now: (heardAt + length) * 1_000_000)
                }
            }
            return table
        }

        func decide() -> AutoFailoverPolicy.Decision {
            AutoFailoverPolicy.decide(settings, situation, table, now: now * 1_000_000)
        }

        func sentences() -> [String] {
            guard case .blocked(_, let reasons) = decide() else { return [] }
            return reasons.map {
                $0.sentence(now: now * 1_000_000) { "db\($0.value)" }
            }
        }
    }

    private func failOver(_ nodes: [UInt16], after: UInt64) -> AutoFailoverPolicy.Decision {
        .failOver(nodes.map { NodeNumber($0) }, silentNanoseconds: after * 1_000_000)
    }

    // MARK: Acting

    @Test func clusterWithoutSilentNodesNeedsNoFailover() {
        #expect(World(3).decide() == .nothing)
    }

    @Test func silentNodeIsFailedOverAfterTheTimeout() {
        var world = World(3)
        world.silent = [3: 299]
        #expect(world.decide() == .nothing)
        world.silent = [3: 400]
        #expect(world.decide() == .wait(NodeNumber(3), untilNanoseconds: 10_600_000_000))
        world.silent = [3: 1_000]
        #expect(world.decide() == failOver([3], after: 1_000))
    }

    @Test func nodesThatBecameSilentTogetherAreFailedOverTogether() {
        var world = World(5)
        world.settings.countMax = 2
        world.silent = [4: 1_000, 5: 800]
        #expect(world.decide() == .wait(NodeNumber(5), untilNanoseconds: 10_200_000_000))
        world.silent = [4: 1_200, 5: 1_000]
        #expect(world.decide() == failOver([4, 5], after: 1_000))
        // The other node became silent much later: it is decided on its own.
        world.silent = [4: 1_000, 5: 400]
        #expect(world.decide() == failOver([4], after: 1_000))
    }

    @Test func wholeServerGroupCountsAsOneFailover() {
        var world = World(6, groups: ["a", "a", "b", "b", "c", "c"])
        world.silent = [5: 1_000, 6: 1_000]
        #expect(world.decide() == failOver([5, 6], after: 1_000))
        world.silent = [4: 1_000, 6: 1_000]
        #expect(world.sentences().count == 1)
    }

    @Test func newLeaderThatHeardNoOtherNodeWaitsBeforeFailover() {
        var world = World(3)
        world.now = 4_000
        world.situation.leaderSinceNanoseconds = 1_000_000_000
        let table = FailureTable(of: NodeNumber(1), now: 0)
        let decision = AutoFailoverPolicy.decide(
            world.settings,
            world.situation,
            table,
            now: 4_000_000_000
        )
        #expect(decision == .wait(NodeNumber(2), untilNanoseconds: 11_000_000_000))
    }

    @Test(
        arguments: [
            // Timeout in seconds, silence, refusals at the leader and at the others, in milliseconds.
            (5, 1_099, 999, 1_050, false), (5, 1_100, 1_000, 1_000, true),
            // Fewer than a majority are refused.
            (5, 1_500, 1_500, 0, false), (5, 1_500, 0, 1_500, false),
            // The silence of a machine has the whole timeout.
            (5, 4_999, 0, 0, false), (5, 5_000, 0, 0, true),
            // A longer timeout is more patience with restarts too.
            (120, 23_000, 23_000, 23_000, false), (120, 24_000, 24_000, 24_000, true),
            (1, 1_000, 0, 0, true),
        ] as [(UInt16, UInt64, UInt64, UInt64, Bool)]
    )
    func nodeWhoseProcessIsGoneIsFailedOverEarly(
        _ timeout: UInt16,
        _ silence: UInt64,
        _ leader: UInt64,
        _ others: UInt64,
        _ isDue: Bool
    ) {
        var world = World(3)
        world.now = 100_000
        world.settings.timeoutSeconds = timeout
        world.silent = [3: silence]
        world.refused = [3: (leader, others)]
        let decision = world.decide()
        if isDue {
            #expect(decision == failOver([3], after: silence))
        } else if case .wait(let node, _) = decision {
            #expect(node == NodeNumber(3))
        } else {
            Issue.record("\(decision)")
        }
    }

    @Test func processesThatEndTogetherAreFailedOverTogether() {
        var world = World(5)
        world.settings.timeoutSeconds = 5
        world.settings.countMax = 2
        world.silent = [4: 1_100, 5: 1_000]
        world.refused = [4: (1_100, 1_000), 5: (1_000, 900)]
        guard case .wait(NodeNumber(5), _) = world.decide() else {
            Issue.record("\(world.decide())")
            return
        }
        world.refused[5] = (1_000, 1_000)
        #expect(world.decide() == failOver([4, 5], after: 1_000))
    }

    // MARK: Every reason, and its sentence

    @Test func failoverIsBlockedWhenDisabled() {
        var world = World(3)
        world.silent = [3: 1_500]
        world.settings.isEnabled = false
        #expect(world.sentences() == ["Automatic failover is switched off."])
    }

    @Test func failoverIsBlockedAtMaxCount() {
        var world = World(3)
        world.silent = [3: 1_500]
        world.situation.count = 1
        #expect(
            world.sentences() == [
                "1 node was failed over automatically, and the limit is 1 until an operator"
                    + " resets the count or a rebalance completes."
            ]
        )
    }

    @Test func failoverIsBlockedWithoutReachableMajority() {
        var world = World(5)
        world.settings.countMax = 5
        world.silent = [3: 1_500, 4: 1_500, 5: 1_500]
        #expect(
            world.sentences() == [
                "Only db1 and db2 find db3 down, and 3 nodes would have to.",
                "Only db1 and db2 find db4 down, and 3 nodes would have to.",
                "Only db1 and db2 find db5 down, and 3 nodes would have to.",
                "Only 2 of the 3 nodes that make a majority can be reached from here.",
            ]
        )
    }

    @Test func failoverIsBlockedWithTwoVoters() {
        var world = World(2)
        world.silent = [2: 1_500]
        #expect(
            world.sentences() == [
                "Only db1 finds db2 down, and 2 nodes would have to.",
                "Only 1 of the 2 nodes that make a majority can be reached from here.",
                "There are only 2 voting nodes: with fewer than 3 a dead node and a cut link look"
                    + " the same.",
            ]
        )
    }

    @Test func nodeSeenDownOnlyByTheLeaderIsNotFailedOver() {
        var world = World(3)
        world.silent = [3: 1_500]
        world.mute = [2]
        #expect(
            world.sentences() == ["Only db1 finds db3 down, and 2 nodes would have to."]
        )
    }

    @Test func failoverIsBlockedForTwoNodesDownAtOnce() {
        var world = World(5)
        world.silent = [4: 1_500, 5: 1_400]
        #expect(
            world.sentences() == [
                "db4 and db5 are down at once: that looks like a cut network rather than like dead"
                    + " nodes."
            ]
        )
    }

    @Test func failoverThatWouldEmptyAServerGroupIsBlocked() {
        var world = World(5, groups: ["a", "a", "a", "a", "b"])
        world.silent = [5: 1_500]
        #expect(world.decide() == failOver([5], after: 1_500))
        world.situation.groupsHit = ["b"]
        #expect(
            world.sentences() == [
                "No node of the server group “b” would be left: that looks like a cut network."
            ]
        )
    }

    @Test func failoverIsBlockedDuringMembershipChange() {
        var world = World(3)
        world.silent = [3: 1_500]
        world.situation.isMembershipChanging = true
        #expect(
            world.sentences() == [
                "A node is just joining or leaving; the failover waits until that is done."
            ]
        )
    }

    @Test func failoverIsBlockedDuringCoolDown() {
        var world = World(3)
        world.silent = [3: 1_500]
        world.situation.coolingUntilNanoseconds = 10_300_000_000
        #expect(
            world.sentences() == [
                "The last attempt was a moment ago; the next one may come in 1 second."
            ]
        )
    }

    @Test func failoverOfLastActiveNodeIsBlocked() {
        // The leader has a vote, and is not active.
        var world = World(2)
        world.situation.members.removeFirst()
        world.silent = [2: 1_500]
        #expect(world.sentences().contains("It is the last active node."))
    }

    // MARK: Data

    private func bucket(
        _ name: String,
        chains: [[UInt16]],
        copies: Int,
        isIntact: Bool = true,
        isEphemeral: Bool = false
    ) -> BucketAtStake {
        let rows = chains.enumerated().map { number, chain in
            let nodes = chain.map { NodeNumber($0) }
            let vBucket = VBucketID(UInt16(number))
            let report = CopyReport(
                vBucket: vBucket,
                state: .replica,
                fence: 4,
                position: CopyPosition(branchFence: 4, covered: Seqno(9)),
                high: Seqno(9),
                persisted: Seqno(9),
                isIntact: isIntact,
                wasCleanStop: false,
                boot: 1
            )
            let assignment = VBucketAssignment(fence: 4, stage: 4, chain: nodes, copies: copies)
            return BucketAtStake.Row(
                question: Promotion.Question(vBucket: vBucket, basis: nodes, of: assignment),
                reports: Dictionary(uniqueKeysWithValues: nodes.map { ($0, report) })
            )
        }
        return BucketAtStake(name: name, isEphemeral: isEphemeral, rows: rows)
    }

    @Test func bucketWithoutReplicasBlocksFailover() {
        var world = World(3)
        world.silent = [3: 1_500]
        world.situation.buckets = [
            bucket("safe", chains: [[3, 1], [1, 3]], copies: 2),
            bucket("bare", chains: [[3], [1], [3]], copies: 1),
        ]
        #expect(
            world.sentences() == [
                "There is no other copy of vBuckets 0 and 2 of the bucket “bare”: a failover would"
                    + " lose them."
            ]
        )
    }

    @Test func copiesThatMayLackDurableWritesBlockFailover() {
        var world = World(3)
        world.silent = [3: 1_500]
        let chains = [[UInt16]](repeating: [3, 1], count: 9)
        world.situation.buckets = [bucket("travel", chains: chains, copies: 2, isIntact: false)]
        #expect(
            world.sentences() == [
                "The remaining copies of vBuckets 0, 1, 2, 3, 4 and 4 others of the bucket"
                    + " “travel” may lack durable writes."
            ]
        )
        world.situation.buckets = [bucket("travel", chains: chains, copies: 2)]
        #expect(world.decide() == failOver([3], after: 1_500))
    }

    @Test func ephemeralBucketWithoutReplicasBlocksFailover() {
        var world = World(3)
        world.silent = [3: 1_500]
        world.situation.buckets = [
            bucket("cache", chains: [[3], [1]], copies: 1, isEphemeral: true)
        ]
        #expect(
            world.sentences() == [
                "The bucket “cache” is in memory only and has no replicas: a failover would lose"
                    + " what the node holds of it."
            ]
        )
    }

    @Test func everyBlockerThatAppliesIsListed() {
        var world = World(3)
        world.silent = [3: 1_500]
        world.settings.isEnabled = false
        world.situation.count = 1
        world.situation.isMembershipChanging = true
        world.situation.buckets = [bucket("bare", chains: [[3]], copies: 1)]
        #expect(world.sentences().count == 4)
    }
}
