import Orchestration
import Testing
import Vocabulary

/// Repeated proposals are applied once.
@Suite struct ProposalTests {
    func envelope(_ number: UInt64, boot: UInt64 = 5, from node: Int = 1) -> ClusterEnvelope {
        ClusterEnvelope(
            proposer: n(node),
            boot: boot,
            number: number,
            command: .setName("\(node) \(boot) \(number)")
        )
    }

    @Test func repeatedProposalIsAppliedOnce() {
        var state = ClusterState(memoryQuota: 1)
        #expect(state.apply(envelope(1), at: 1) == .applied([.nodesChanged]))
        _ = state.apply(.setName("later"), at: 2)
        #expect(state.apply(envelope(1), at: 3) == .repeated)
        #expect(state.name == "later" && state.index == 3)
        // Another boot, another node, or an untracked proposal.
        #expect(state.apply(envelope(1, boot: 6), at: 4) != .repeated)
        #expect(state.apply(envelope(1, from: 2), at: 5) != .repeated)
        #expect(state.apply(envelope(0), at: 6) != .repeated)
        #expect(state.apply(envelope(0), at: 7) != .repeated)
        #expect(state.apply(envelope(1), at: 8) == .repeated)
    }

    /// A leader pauses with a proposal in its socket, while the proposer crashes repeatedly.
    @Test func lateProposalOfAnEarlierBootIsAppliedOnce() {
        var state = ClusterState(memoryQuota: 1)
        for boot in UInt64(1)...30 {
            #expect(state.apply(envelope(1, boot: boot), at: boot) != .repeated)
        }
        for boot in UInt64(1)...30 {
            #expect(state.apply(envelope(1, boot: boot), at: 30 + boot) == .repeated)
        }
    }

    /// A node proposes its own removal, and repeats that without an answer.
    @Test func proposalOfARemovedNodeIsRefused() {
        var world = ClusterWorld(nodes: 3)
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false, mayLose: true)))
        let index = world.state.index
        let removal = ClusterEnvelope(
            proposer: n(3),
            boot: 5,
            number: 1,
            login: "Administrator",
            command: .removeNode(n(3))
        )
        #expect(world.state.apply(removal, at: index + 1) != .refused(.nodeUnknown))
        var before = world.state
        #expect(world.state.apply(removal, at: index + 2) == .refused(.nodeUnknown))
        #expect(world.state.apply(envelope(7, from: 3), at: index + 3) == .refused(.nodeUnknown))
        _ = before.apply(.dropRetry(id: ""), at: index + 3)
        #expect(world.state == before)
    }

    @Test func proposalsApplyOutOfOrder() {
        var state = ClusterState(memoryQuota: 1)
        var index: UInt64 = 0
        func apply(_ number: UInt64) -> Bool {
            index += 1
            return state.apply(envelope(number), at: index) == .applied([.nodesChanged])
        }
        #expect(apply(3))
        #expect(apply(1))
        #expect(!apply(1))
        #expect(!apply(3))
        #expect(apply(2))
        #expect(apply(100))
        #expect(apply(37))
        #expect(!apply(37))
        // Too old to know.
        #expect(!apply(36))
        #expect(apply(1_000))
        #expect(!apply(100))
    }

    @Test func repeatedRefusedProposalIsRefused() {
        var state = ClusterState(memoryQuota: 1)
        func removal(_ number: UInt64) -> ClusterEnvelope {
            ClusterEnvelope(proposer: n(1), boot: 5, number: number, command: .removeNode(n(9)))
        }
        _ = state.apply(envelope(1), at: 1)
        #expect(state.apply(removal(2), at: 2) == .refused(.nodeUnknown))
        _ = state.apply(envelope(3), at: 3)
        guard case .state(var again) = ClusterState.decode(state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(again.apply(removal(2), at: 4) == .refused(.refusedBefore))
        #expect(again.apply(envelope(1), at: 5) == .repeated)
        #expect(again.apply(envelope(3), at: 6) == .repeated)
        // Too old to know.
        _ = again.apply(envelope(100), at: 7)
        #expect(again.apply(envelope(3), at: 8) == .refused(.refusedBefore))
        // A first proposal far behind a refused one does not count as refused.
        #expect(again.apply(envelope(165), at: 9) == .applied([.nodesChanged]))
        #expect(again.apply(envelope(165), at: 10) == .repeated)
    }

    @Test func onlyTheNewestBootsAreRemembered() {
        var state = ClusterState(memoryQuota: 1)
        for life in 1...5 as ClosedRange<UInt64> {
            _ = state.apply(envelope(7, boot: life), at: life)
        }
        #expect(state.apply(envelope(7, boot: 2), at: 6) == .repeated)
        #expect(state.apply(envelope(7, boot: 5), at: 7) == .repeated)
        guard case .state(var again) = ClusterState.decode(state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(again == state)
        #expect(again.apply(envelope(7, boot: 3), at: 8) == .repeated)
    }

    @Test func envelopesWithSkippedLogIndexesAreApplied() {
        var state = ClusterState(memoryQuota: 1)
        _ = state.apply(envelope(1), at: 10)
        _ = state.apply(envelope(2), at: 400)
        #expect(state.index == 400 && state.rev == 400)
    }
}
