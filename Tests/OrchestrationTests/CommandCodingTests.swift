import Bytes
import Orchestration
import Testing
import Vocabulary

/// The encoding of commands is lossless; damage is detected or harmless, and never causes a crash.
@Suite struct CommandCodingTests {
    @Test func commandsAndStatesSurviveTheirEncoding() throws {
        var dice = CommandDice(seed: 7, hasUsers: true)
        let first = ClusterWorld(nodes: 3).state
        var state = first
        for step in 0..<500 {
            let envelope = dice.envelope(for: state)
            #expect((try? ClusterEnvelope(decoding: envelope.encoded)) == envelope, "step \(step)")
            _ = state.apply(envelope, at: state.index + 1)
            guard case .state(let decoded) = ClusterState.decode(state.encoded()) else {
                Issue.record("step \(step): not decoded")
                return
            }
            #expect(decoded == state, "step \(step)")
            if step % 100 == 99 { state = first }
        }
    }

    @Test func damagedCommandsAreRejectedOrHarmless() {
        var dice = CommandDice(seed: 8, hasDesigns: true, hasUsers: true)
        var state = ClusterWorld(nodes: 3).state
        for step in 0..<500 {
            let envelope = dice.envelope(for: state)
            let bytes = envelope.encoded
            for length in [0, 1, bytes.count / 2, bytes.count - 1] {
                let part = Array(bytes.prefix(length))
                #expect((try? ClusterEnvelope(decoding: part)) == nil, "step \(step)")
            }
            #expect((try? ClusterEnvelope(decoding: bytes + [0])) == nil, "step \(step)")
            for _ in 0..<20 {
                var damaged = bytes
                damaged[dice.below(bytes.count)] ^= UInt8(1 + dice.below(255))
                guard let other = try? ClusterEnvelope(decoding: damaged) else { continue }
                // The damage yields another valid command: the state must handle it.
                var one = state
                let before = one
                _ = one.apply(other, at: state.index + 1)
                let violations = one.violations(since: before)
                #expect(violations == [], "step \(step): \(other.command)")
            }
            _ = state.apply(envelope, at: state.index + 1)
        }
    }

    @Test func vBucketStepNeedsFewBytes() {
        let placement = VBucketPlacement(chain: [n(1), n(2)], copies: 2, index: 70_000)
        let steps = (0..<1_024 as Range<UInt16>).map {
            VBucketSteps.Step(
                VBucketID($0),
                from: placement,
                row: [n(2)],
                position: at(70_000, 1_000_000)
            )
        }
        let all = VBucketSteps(bucket: "b", steps: steps, deposes: [n(1)])
        let promotion = ClusterEnvelope(proposer: n(1), boot: 1, number: 1, command: .promote(all))
        #expect(promotion.encoded.count < 12 * 1_024)
        let confirmation = ClusterEnvelope(
            proposer: n(1),
            boot: 1,
            number: 1,
            command: .confirm(all)
        )
        #expect((try? ClusterEnvelope(decoding: confirmation.encoded)) == confirmation)
        var world = ClusterWorld(nodes: 2)
        world.createBucket(rows: Array(repeating: [n(1), n(2)], count: 1_024))
        #expect(world.state.encoded().count < 12 << 10)
    }
}
