import Bytes
import Orchestration
import Testing
import Vocabulary

/// The cluster's feature level: the lowest that all members announce, and never lower than before.
@Suite struct FeatureLevelTests {
    private static func node(_ number: Int, level: UInt16) -> NewNode {
        var node = ClusterWorld.node(number)
        node.level = FeatureLevel(level)
        return node
    }

    private func announce(
        _ level: UInt16,
        by number: Int,
        in world: inout ClusterWorld
    ) -> ClusterOutcome {
        guard let node = world.state.node(number: n(number)) else {
            return .refused(.nodeUnknown)
        }
        var address = NodeAddress(number: n(number), host: node.host, ports: node.ports)
        address.level = FeatureLevel(level)
        return world.apply(.setNode(address))
    }

    @Test func clusterLevelIsThatOfItsFirstNode() {
        for level in [0, 1, 7] as [UInt16] {
            #expect(ClusterWorld(levels: [level]).state.featureLevel == FeatureLevel(level))
        }
        #expect(ClusterState(memoryQuota: 0).featureLevel == .lowest)
    }

    struct Joining {
        var cluster: [UInt16]
        var newcomer: UInt16
        var isAccepted: Bool
    }

    @Test(
        arguments: [
            Joining(cluster: [1], newcomer: 1, isAccepted: true),
            Joining(cluster: [1], newcomer: 2, isAccepted: true),
            Joining(cluster: [1, 2, 2], newcomer: 1, isAccepted: true),
            Joining(cluster: [2], newcomer: 1, isAccepted: false),
            Joining(cluster: [2, 3], newcomer: 1, isAccepted: false),
            Joining(cluster: [2, 3], newcomer: 2, isAccepted: true),
        ]
    )
    func newcomerBelowTheClustersLevelIsRefused(_ joining: Joining) {
        var world = ClusterWorld(levels: joining.cluster)
        let before = world.state.featureLevel
        let number = joining.cluster.count + 1
        let outcome = world.apply(.addNode(Self.node(number, level: joining.newcomer)))
        #expect((outcome != .refused(.levelTooLow)) == joining.isAccepted)
        #expect((world.state.nodes.count == number) == joining.isAccepted)
        #expect(world.state.featureLevel == before)
    }

    struct Raise {
        var announced: [UInt16]
        var proposed: UInt16
        var refusal: ClusterRefusal?
    }

    @Test(
        arguments: [
            Raise(announced: [2, 2, 2], proposed: 2, refusal: nil),
            Raise(announced: [2, 3, 2], proposed: 2, refusal: nil),
            Raise(announced: [2, 1, 2], proposed: 2, refusal: .levelTooHigh),
            Raise(announced: [2, 2, 2], proposed: 3, refusal: .levelTooHigh),
            Raise(announced: [2, 2, 2], proposed: 1, refusal: .changedMeanwhile),
        ]
    )
    func levelIsRaisedOnlyToWhatAllMembersAnnounce(_ raise: Raise) {
        var world = ClusterWorld(levels: [1, 1, 1])
        for (place, level) in raise.announced.enumerated() {
            let effects: [ClusterEffect] = level == 1 ? [] : [.settingsChanged]
            #expect(announce(level, by: place + 1, in: &world) == .applied(effects))
        }
        let outcome = world.apply(.raiseFeatureLevel(FeatureLevel(raise.proposed)))
        if let refusal = raise.refusal {
            #expect(outcome == .refused(refusal))
            #expect(world.state.featureLevel == .first)
        } else {
            #expect(outcome == .applied([.nodesChanged]))
            #expect(world.state.featureLevel == FeatureLevel(raise.proposed))
        }
    }

    /// An upgrade can be taken back as long as the cluster uses nothing new.
    @Test func announcedLevelMayFallAboveTheClustersLevelOnly() {
        var world = ClusterWorld(levels: [1, 1])
        #expect(announce(2, by: 1, in: &world) == .applied([.settingsChanged]))
        #expect(announce(1, by: 1, in: &world) == .applied([.settingsChanged]))
        #expect(announce(2, by: 1, in: &world) == .applied([.settingsChanged]))
        #expect(announce(2, by: 2, in: &world) == .applied([.settingsChanged]))
        world.apply(.raiseFeatureLevel(FeatureLevel(2)))
        #expect(announce(1, by: 2, in: &world) == .refused(.levelTooLow))
        #expect(world.state.node(number: n(2))?.level == FeatureLevel(2))
        #expect(announce(3, by: 2, in: &world) == .applied([.settingsChanged]))
    }

    /// A node is renamed by an entry without a level.
    @Test func nodeAddressWithoutLevelKeepsAnnouncedLevel() throws {
        var world = ClusterWorld(levels: [2])
        let node = try #require(world.state.node(number: n(1)))
        world.apply(.setNode(NodeAddress(number: n(1), host: "10.0.0.9", ports: node.ports)))
        #expect(world.state.node(number: n(1))?.level == FeatureLevel(2))
    }

    @Test func removedMemberDoesNotLimitTheFeatureLevel() {
        var world = ClusterWorld(levels: [1, 2])
        #expect(announce(2, by: 1, in: &world) == .applied([.settingsChanged]))
        world.apply(.addNode(Self.node(3, level: 1)))
        #expect(world.state.announcedLevel == .first)
        world.apply(.removeNode(n(3)))
        #expect(world.state.announcedLevel == FeatureLevel(2))
    }

    @Test func levelsSurviveTheStatesEncoding() {
        let world = ClusterWorld(levels: [2, 3, 2])
        guard case .state(let decoded) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(decoded == world.state)
        #expect(decoded.nodes.map(\.level.number) == [2, 3, 2])
    }

    @Test func levelsInCommandsSurviveTheirEncoding() {
        var node = Self.node(2, level: 0x0102)
        var address = NodeAddress(number: n(2), host: "h", ports: node.ports)
        for level in [0, 1, 0xffff] as [UInt16] {
            node.level = FeatureLevel(level)
            address.level = FeatureLevel(level)
            let commands: [ClusterCommand] = [
                .addNode(node), .setNode(address), .raiseFeatureLevel(FeatureLevel(level)),
            ]
            for command in commands {
                let envelope = ClusterEnvelope(
                    proposer: n(1),
                    boot: 1,
                    number: 1,
                    command: command
                )
                #expect((try? ClusterEnvelope(decoding: envelope.encoded)) == envelope)
                // Nodes that skip a field of a command would make other states of one log.
                #expect((try? ClusterEnvelope(decoding: envelope.encoded + [1])) == nil)
            }
        }
    }
}

extension ClusterWorld {
    /// Nodes that announce these levels; all but the first are joining.
    init(levels: [UInt16]) {
        self.init()
        for (place, level) in levels.enumerated() {
            var node = ClusterWorld.node(place + 1)
            node.level = FeatureLevel(level)
            apply(.addNode(node))
        }
    }
}
