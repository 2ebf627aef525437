import Bytes
import ClusterService
import Testing
import Vocabulary
import Wire

/// Handshakes of two nodes whose keys are proved already: which claims are accepted.
@Suite struct PeerHandshakeTests {
    private static func claim(_ number: UInt16) -> PeerClaim {
        PeerClaim(
            node: NodeNumber(number),
            nodeUUID: "uuid-of-\(number)",
            clusterUUID: "cluster",
            group: 40,
            epoch: 2
        )
    }

    /// What two nodes say and find.
    private struct Pair {
        var one = claim(1)
        var other = claim(2)
        var service = NodeService.Connection.main
        var expected: UInt16 = 2
        var versions: (UInt16, UInt16) = (1, 1)
        /// Of the responder's validation.
        var decision: PeerRefusal?
        /// Of the initiator's validation.
        var answerRefusal: PeerRefusal?

        func run() -> (initiator: PeerHandshake.Step, responder: PeerHandshake.Step) {
            let caller = PeerHandshake.initiator(
                one,
                service: service,
                expected: NodeNumber(expected),
                version: versions.0
            )
            let called = PeerHandshake.responder(other, version: versions.1)
            let (there, back) = (ByteWriter(), ByteWriter())
            caller.start(output: there)
            called.start(output: back)
            let answered = called.receive(there.view, output: back) { _, _ in decision }
            let (_, step) = caller.receive(back.view, output: there) { _, _ in answerRefusal }
            return (step, answered.step)
        }
    }

    private func refusal(_ step: PeerHandshake.Step) -> PeerRefusal? {
        if case .refused(let refusal) = step { refusal } else { nil }
    }

    @Test func establishedHandshakeGivesBothSidesTheClaims() {
        for service in NodeService.Connection.allCases {
            var pair = Pair()
            pair.service = service
            guard
                case (.established(let called, service), .established(let caller, service)) =
                    pair.run()
            else {
                Issue.record("\(service)")
                continue
            }
            #expect(called == pair.other && caller == pair.one)
        }
    }

    @Test func messagesMayArriveByteByByte() {
        let writer = ByteWriter()
        PeerHandshake.initiator(Self.claim(1), service: .main, expected: NodeNumber(2))
            .start(output: writer)
        let hello = writer.bytes
        let called = PeerHandshake.responder(Self.claim(2))
        for count in 0..<hello.count {
            let (consumed, step) = hello[..<count].withUnsafeBytes {
                called.receive(ByteView($0), output: writer) { _, _ in nil }
            }
            guard case .waiting(let needed) = step else {
                Issue.record("\(step) after \(count) bytes")
                return
            }
            #expect(consumed == 0 && needed > count && needed <= hello.count)
        }
    }

    @Test func refusalsReachTheCaller() {
        let tooLow = PeerRefusal.levelTooLow(required: FeatureLevel(258))
        for decision in [PeerRefusal.removed(epoch: 8), .notExpected, .connected, tooLow] {
            var pair = Pair()
            pair.decision = decision
            let (one, other) = pair.run()
            #expect(refusal(one) == decision && refusal(other) == decision)
        }
    }

    /// The two sides name the same fact from their own point of view.
    @Test func callerWithUnknownKeyGetsKeyRefused() {
        var pair = Pair()
        pair.decision = .wrongKey
        let (one, other) = pair.run()
        #expect(refusal(one) == .keyRefused && refusal(other) == .wrongKey)
    }

    /// A node that is told of its removal discards its data.
    ///
    /// Any node may answer a `join`.
    @Test func removalClaimedOverJoinConnectionIsNotBelieved() {
        var pair = Pair()
        pair.service = .join
        pair.decision = .removed(epoch: 8)
        #expect(refusal(pair.run().initiator) == .notExpected)
    }

    @Test func otherClusterVersionAndNodeAreRefused() {
        var pair = Pair()
        pair.other.clusterUUID = "elsewhere"
        #expect(refusal(pair.run().initiator) == .otherCluster)
        pair = Pair()
        pair.versions = (1, 2)
        #expect(refusal(pair.run().initiator) == .otherVersion(have: 1, theirs: 2))
        #expect(refusal(pair.run().responder) == .otherVersion(have: 2, theirs: 1))
        pair = Pair()
        pair.expected = 9
        #expect(refusal(pair.run().initiator) == .notExpected)
        // The node has connected to itself.
        pair = Pair()
        (pair.other, pair.expected) = (pair.one, 1)
        #expect(refusal(pair.run().initiator) == .notExpected)
        // A node without a cluster serves only `join`.
        pair = Pair()
        (pair.one.clusterUUID, pair.other.clusterUUID) = ("", "")
        #expect(refusal(pair.run().initiator) == .notExpected)
    }

    /// The responder has the expected number but another group or epoch, and its validation accepts.
    @Test func onlyEpochCallsCrossEpochs() {
        for change in [\PeerClaim.group, \PeerClaim.epoch] {
            var pair = Pair()
            pair.other[keyPath: change] += 1
            #expect(refusal(pair.run().initiator) == .notExpected)
            pair.service = .epoch
            #expect(refusal(pair.run().initiator) == nil)
        }
        // The called node may be the one that is too old.
        var pair = Pair()
        pair.answerRefusal = .levelTooLow(required: FeatureLevel(3))
        #expect(refusal(pair.run().initiator) == pair.answerRefusal)
    }

    @Test func anyBytesAreRefusedOrIncomplete() {
        var random = SeededRandom(seed: 3)
        for _ in 0..<5_000 {
            let count = Int.random(in: 0...300, using: &random)
            var bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            if Bool.random(using: &random) {
                bytes.replaceSubrange(0..<0, with: [0x44, 0x56, 0x4e])
            }
            let sides = [
                PeerHandshake.responder(Self.claim(2)),
                .initiator(Self.claim(1), service: .main, expected: NodeNumber(2)),
            ]
            for side in sides {
                let writer = ByteWriter()
                let (_, step) = bytes.withUnsafeBytes {
                    side.receive(ByteView($0), output: writer) { _, _ in nil }
                }
                if case .established = step { Issue.record("random bytes were accepted") }
                #expect(writer.count <= PeerGreeting.bytesMax)
            }
        }
    }
}
