import ClusterService
import Orchestration
import Seams
import Testing

/// Calls of strangers to a node without a cluster.
@Suite(.serialized) struct StrangerSceneTests {
    /// An invitation in bytes: any process can send one.
    private func invitation() -> [UInt8] {
        let host = Array("10.0.0.9".utf8)
        var bytes: [UInt8] = [7] + Array("cluster".utf8)
        bytes += [0, 0, 0, 0, 0, 0, 0, 9] + [1]
        bytes += [4] + [UInt8(host.count)] + host
        // No members, feature level 1, no proof: a sender on this machine needs none.
        return bytes + [0, 1, 0]
    }

    private func invite(_ member: SceneMember, _ payload: [UInt8], from stranger: PeerNode) async
        -> Result<[UInt8], PeerCallError>
    {
        let address = PeerAddress(host: "127.0.0.1", port: member.ports.peer, key: nil)
        return await withCheckedContinuation { waiter in
            stranger.lane.post { [calls = stranger.calls] in
                calls.callStranger(
                    at: address,
                    5,
                    { _ in payload },
                    timeoutNanoseconds: 10_000_000_000
                ) { waiter.resume(returning: $0) }
            }
        }
    }

    @Test func malformedInvitationIsRefused() async throws {
        let scene = try ClusterScene(1)
        defer { scene.stop() }
        try await scene.members[0].start()
        let stranger = try PeerNode(9)
        defer { stranger.stop() }
        stranger.identify()
        let whole = invitation()
        for count in 0..<whole.count {
            let part = Array(whole.prefix(count))
            let answer = try await invite(scene.members[0], part, from: stranger).get()
            let text = String(decoding: answer.dropFirst(), as: UTF8.self)
            #expect(text == "The invitation is malformed.", "\(count)")
        }
        #expect(!scene[1].state.isProvisioned && scene[1].cluster.raftStatus.isReadyToLead)
        #expect(try await invite(scene.members[0], whole, from: stranger).get() == [0])
    }
}
