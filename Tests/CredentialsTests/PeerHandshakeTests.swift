import Bytes
import Credentials
import Testing
import Vocabulary
import Wire

/// Handshakes between nodes: which are accepted, and that no message can be changed under way.
@Suite struct PeerHandshakeTests {
    @Test func handshakeOfTwoMembersEstablishesBothClaims() throws {
        for service in [PeerService.control, .changes] {
            var pair = PeerPair()
            pair.service = service
            let (one, other) = pair.run()
            guard case .established(let called, service, _) = one,
                case .established(let caller, service, _) = other
            else {
                Issue.record("\(one) \(other)")
                continue
            }
            #expect(called == pair.other.claim && caller == pair.one.claim)
        }
    }

    @Test func handshakeAcceptsMessagesByteByByte() {
        let pair = PeerPair()
        var sides = [pair.initiator(), pair.responder()]
        let writer = ByteWriter()
        sides[0].start(output: writer)
        var established = 0
        for number in 0..<3 {
            let message = writer.bytes
            writer.removeAll()
            let side = 1 - number % 2
            for count in 1...message.count {
                let (consumed, step) = Array(message[..<count]).withView { view in
                    sides[side].receive(view, output: writer) { _, _ in nil }
                }
                if count < message.count {
                    guard case .waiting(let needed) = step else {
                        Issue.record("\(step) after \(count) bytes")
                        return
                    }
                    #expect(consumed == 0 && needed > count)
                } else {
                    #expect(consumed == count)
                    if case .established = step { established += 1 }
                }
            }
        }
        #expect(established == 2)
    }

    @Test func nodeWithAnotherSecretIsRefused() {
        var pair = PeerPair()
        pair.other.secret = PeerSecret([UInt8](repeating: 6, count: 32))
        let (one, other) = pair.run()
        #expect(one.refusal == .wrongSecret && other.refusal == .wrongSecret)
        pair.other.secret = nil
        #expect(pair.run().responder.refusal == .notExpected)
    }

    @Test func nodeOfAnotherClusterIsRefused() {
        var pair = PeerPair()
        pair.other.claim.clusterUUID = "elsewhere"
        let (one, other) = pair.run()
        #expect(one.refusal == .otherCluster && other.refusal == .otherCluster)
    }

    @Test func otherVersionIsReportedToBothSides() {
        var pair = PeerPair()
        pair.versions = (1, 2)
        let (one, other) = pair.run()
        #expect(one.refusal == .otherVersion(have: 1, theirs: 2))
        #expect(other.refusal == .otherVersion(have: 2, theirs: 1))
    }

    @Test func answerOfAnotherNodeThanExpectedIsRefused() {
        var pair = PeerPair()
        pair.expected = 9
        #expect(pair.run().initiator.refusal == .notExpected)
        // The node has connected to itself.
        pair = PeerPair()
        pair.other = pair.one
        pair.expected = 1
        #expect(pair.run().initiator.refusal == .notExpected)
        // The responder has the expected number but another group or epoch, and its judge accepts.
        for change in [\PeerClaim.group, \PeerClaim.epoch] {
            pair = PeerPair()
            pair.other.claim[keyPath: change] += 1
            let (one, other) = pair.run()
            #expect(one.refusal == .notExpected)
            #expect(other.cipher == nil)
        }
    }

    @Test func refusalOfTheJudgeReachesTheInitiator() {
        let tooLow = PeerRefusal.levelTooLow(required: FeatureLevel(258))
        for verdict in [PeerRefusal.removed(epoch: 8), .notExpected, tooLow] {
            var pair = PeerPair()
            pair.verdict = verdict
            let (one, other) = pair.run()
            #expect(one.refusal == verdict && other.refusal == verdict)
        }
    }

    /// The called node may be the one that is too old.
    @Test func initiatorRefusesClaimOfTheAnswerByItsJudge() {
        let pair = PeerPair()
        var (caller, called) = (pair.initiator(), pair.responder())
        let (there, back) = (ByteWriter(), ByteWriter())
        caller.start(output: there)
        _ = called.receive(there.view, output: back) { _, _ in nil }
        let judged = Guarded<PeerClaim?>(nil)
        let (_, step) = caller.receive(back.view, output: there) { claim, _ in
            judged.withLock { $0 = claim }
            return .levelTooLow(required: FeatureLevel(3))
        }
        guard case .refused(.levelTooLow(FeatureLevel(3))) = step else {
            Issue.record("\(step)")
            return
        }
        #expect(judged.withLock { $0 } == pair.other.claim)
    }

    /// A node that was removed discards its data.
    @Test func unprovedRemovalIsNotReported() {
        var pair = PeerPair()
        pair.verdict = .removed(epoch: 8)
        for place in 9..<50 {
            pair.tamper = { number, message in if number == 1 { message[place] ^= 1 } }
            let refusal = pair.run().initiator.refusal
            if case .removed = refusal { Issue.record("byte \(place)") }
            #expect(refusal != nil)
        }
        // The refusal of another hello is replayed.
        let recorded = Guarded<[UInt8]>([])
        pair.tamper = { number, message in if number == 1 { recorded.withLock { $0 = message } } }
        _ = pair.run()
        pair.seed = 2
        pair.tamper = { number, message in if number == 1 { message = recorded.withLock { $0 } } }
        #expect(pair.run().initiator.refusal == .wrongSecret)
    }

    @Test func handshakeWithAChangedBitIsRefused() {
        for (seed, service) in [(UInt64(1), PeerService.control), (2, .changes), (3, .join)] {
            var pair = PeerPair()
            pair.seed = seed
            pair.service = service
            if service == .join {
                pair.one.secret = nil
                pair.expected = 0
            }
            let lengths = Guarded([0, 0, 0])
            pair.tamper = { number, message in lengths.withLock { $0[number] = message.count } }
            #expect(pair.establish() != nil)
            for (number, length) in lengths.withLock({ $0 }).enumerated() {
                #expect(length > 0)
                for place in 0..<length {
                    pair.tamper = { at, message in
                        if at == number { message[place] ^= UInt8(1) << (place % 8) }
                    }
                    let (one, other) = pair.run()
                    #expect(other.cipher == nil, "\(service) \(number) \(place)")
                    // The initiator has accepted the answer before the last message.
                    if number < 2 { #expect(one.cipher == nil, "\(service) \(number) \(place)") }
                }
            }
        }
    }

    @Test func messageReplayedOnAnotherConnectionIsRefused() {
        for number in 0..<3 {
            let recorded = Guarded<[UInt8]>([])
            var pair = PeerPair()
            pair.tamper = { at, message in if at == number { recorded.withLock { $0 = message } } }
            #expect(pair.establish() != nil)
            pair.seed = 2
            pair.tamper = { at, message in if at == number { message = recorded.withLock { $0 } } }
            let (one, other) = pair.run()
            #expect(other.cipher == nil)
            if number < 2 { #expect(one.cipher == nil) }
        }
    }

    @Test func messageReflectedToItsSenderIsRefused() {
        let pair = PeerPair()
        let writer = ByteWriter()
        var caller = pair.initiator()
        caller.start(output: writer)
        let hello = writer.bytes
        writer.removeAll()
        let (_, step) = hello.withView { caller.receive($0, output: writer) { _, _ in nil } }
        guard case .refused = step else {
            Issue.record("a reflected hello was accepted as an answer")
            return
        }
        // The hello is reflected to the initiator's own port.
        var own = PeerHandshake.responder(pair.one, dice: PeerPair.dice(99))
        let (_, reply) = hello.withView { own.receive($0, output: writer) { _, _ in nil } }
        guard case .refused(.notExpected) = reply else {
            Issue.record("\(reply)")
            return
        }
        // The answer is reflected in place of the finish.
        var tampered = pair
        let recorded = Guarded<[UInt8]>([])
        tampered.tamper = { number, message in
            if number == 1 { recorded.withLock { $0 = message } }
            if number == 2 { message = recorded.withLock { $0 } }
        }
        #expect(tampered.run().responder.refusal == .invalidHandshake)
    }

    @Test func joinWithoutASecretEstablishesAChannelOfItsOwn() {
        var pair = PeerPair()
        pair.service = .join
        pair.one.secret = nil
        pair.one.claim.clusterUUID = ""
        pair.one.claim.node = NodeNumber(0)
        pair.expected = 0
        guard case .established(let caller, .join, var sealed) = pair.run().responder else {
            Issue.record("join without a secret was refused")
            return
        }
        #expect(caller == pair.one.claim)
        // Keys of another exchange do not open the record.
        pair.seed = 5
        guard var other = pair.run().initiator.cipher else { return }
        let writer = ByteWriter()
        [1, 2, 3].withView { sealed.seal($0, to: writer) }
        guard case .broken = other.open(writer.view, { _ in }) else {
            Issue.record("another connection's record opened")
            return
        }
    }

    @Test func descriptionsDoNotContainTheSecret() {
        let secret = PeerPair.secret
        var text = ""
        dump(secret, to: &text)
        dump(PeerPair.identity(1), to: &text)
        text += "\(String(describing: secret)) \(PeerPair.identity(1))"
        #expect(!text.contains("193"), "\(text)")
    }

    @Test func randomBytesAreRefusedOrIncomplete() {
        var random = SeededRandom(seed: 3)
        for _ in 0..<5_000 {
            let count = Int.random(in: 0...300, using: &random)
            var bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            if Bool.random(using: &random) {
                bytes.replaceSubrange(0..<0, with: [0x44, 0x56, 0x4e])
            }
            for isCaller in [true, false] {
                var side = isCaller ? PeerPair().initiator() : PeerPair().responder()
                let writer = ByteWriter()
                if isCaller { side.start(output: writer) }
                let (_, step) = bytes.withView { side.receive($0, output: writer) { _, _ in nil } }
                if case .established = step { Issue.record("random bytes were accepted") }
                #expect(writer.count <= 2 * PeerGreeting.bytesMax)
            }
        }
    }
}
