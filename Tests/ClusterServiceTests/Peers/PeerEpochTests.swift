import ClusterService
import Credentials
import Seams
import TestSupport
import Testing
import Vocabulary

/// Nodes of different epochs of one cluster.
@Suite struct PeerEpochTests {
    private func ask(_ one: PeerNode, _ other: PeerNode) async -> Result<[UInt8], PeerCallError> {
        await withUnsafeContinuation { waiter in
            let number = other.number
            one.lane.post { [calls = one.calls] in
                calls.callAcrossEpochs(number, 9, [5], timeoutNanoseconds: 5_000_000_000) {
                    waiter.resume(returning: $0)
                }
            }
        }
    }

    @Test func membersOfTwoEpochsCanOnlyMakeEpochCalls() async throws {
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        for node in nodes {
            _ = node.echo()
            let own = UInt8(node.number.value)
            node.lane.post { [calls = node.calls] in
                calls.handleEpochCalls(9) { from, payload, answer in
                    answer([own, UInt8(from.value)] + payload)
                }
            }
        }
        nodes[0].identify(epoch: 2)
        #expect(await ask(nodes[0], nodes[1]) == .success([2, 1, 5]))
        #expect(await ask(nodes[1], nodes[0]) == .success([1, 2, 5]))
        // Other calls are not handled there, and epoch calls are not handled elsewhere.
        #expect(await nodes[1].call(9, [5], to: nodes[0], seconds: 1) != .success([1, 2, 5]))
        nodes[1].identify(keys: PeerNode.keys(NodeNumber(4)))
        #expect(await ask(nodes[1], nodes[0]) == .failure(.untrusted))
    }

    @Test func onlyMembersOfPastGroupsAreRefusedAsRemoved() async throws {
        let nodes = try (1...3).map { try PeerNode($0) }
        defer { for node in nodes { node.stop() } }
        nodes[0].identify(epoch: 3)
        nodes[0].know([nodes[0]], highestGiven: 3)
        nodes[0].lane.post { [calls = nodes[0].calls] in
            calls.setDirectory(PeerDirectory(highestGiven: NodeNumber(3), pastGroups: [41]))
        }
        // One belongs to a past group, the other to a group formed beside it.
        nodes[1].identify(epoch: 1)
        nodes[2].identify(epoch: 2)
        for node in nodes.dropFirst() { node.know(nodes) }
        let removed = await nodes[1].events.wait { event in
            if case .failed(NodeNumber(1), .refused(.removed(epoch: 3))) = event {
                true
            } else {
                false
            }
        }
        #expect(!removed.isEmpty)
        let refused = await nodes[2].events.wait { event in
            if case .failed(NodeNumber(1), .refused(.notExpected)) = event { true } else { false }
        }
        #expect(!refused.isEmpty)
        let sent = nodes[2].events.values.contains { event in
            if case .failed(_, .refused(.removed(_))) = event { true } else { false }
        }
        #expect(!sent)
    }
}
