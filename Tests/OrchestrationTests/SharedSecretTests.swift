import Orchestration
import Testing
import Vocabulary

/// The secret of the members: the nodes that can open it, and its replacement.
@Suite struct SharedSecretTests {
    private func secret(_ revision: UInt64, for nodes: [UInt16]) -> SharedSecret {
        var secret = SharedSecret()
        secret.revision = revision
        secret.boxes = nodes.map { .init(node: NodeNumber($0), sealed: [UInt8($0), 7]) }
        return secret
    }

    @Test func secretIsAcceptedOnlyForExactlyTheMembers() {
        var world = ClusterWorld(nodes: 3)
        for nodes in [[], [1], [1, 2], [1, 2, 3, 4], [1, 3, 2]] as [[UInt16]] {
            let outcome = world.apply(.renewSecret(secret(1, for: nodes)))
            #expect(outcome == .refused(.changedMeanwhile), "\(nodes)")
        }
        #expect(world.state.secret == SharedSecret())
        guard case .applied = world.apply(.renewSecret(secret(1, for: [1, 2, 3]))) else {
            Issue.record("a secret for all members is refused")
            return
        }
        #expect(world.state.secret.sealed(to: NodeNumber(2)) == [2, 7])
        #expect(world.state.secret.isFor(world.state.members))
    }

    /// Two nodes replace it at the same time.
    @Test func secretIsReplacedOnlyByTheNextOne() {
        var world = ClusterWorld(nodes: 2)
        world.apply(.renewSecret(secret(1, for: [1, 2])))
        for revision in [0, 1, 3] as [UInt64] {
            let outcome = world.apply(.renewSecret(secret(revision, for: [1, 2])))
            #expect(outcome == .refused(.changedMeanwhile), "\(revision)")
        }
        world.apply(.renewSecret(secret(2, for: [1, 2])))
        #expect(world.state.secret.revision == 2)
    }

    /// Then the leader replaces it: the removed node knows the present one.
    @Test func secretIsNotForTheMembersOnceANodeWasAddedOrRemoved() {
        var world = ClusterWorld(nodes: 2)
        world.apply(.renewSecret(secret(1, for: [1, 2])))
        world.apply(.addNode(ClusterWorld.node(3)))
        #expect(!world.state.secret.isFor(world.state.members))
        world.apply(.renewSecret(secret(2, for: [1, 2, 3])))
        world.apply(.removeNode(NodeNumber(3)))
        #expect(!world.state.secret.isFor(world.state.members))
    }

    @Test func secretSurvivesEncoding() {
        var world = ClusterWorld(nodes: 2)
        world.apply(.renewSecret(secret(1, for: [1, 2])))
        guard case .state(let read) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("the state cannot be read")
            return
        }
        #expect(read.secret == world.state.secret)
        #expect(read.nodes.map(\.keys) == world.state.nodes.map(\.keys))
    }
}
