import Bytes
import Credentials
import Testing
import Vocabulary
import Wire

/// Who may talk to whom, and that nobody in between changes a word.
@Suite struct PeerHandshakeTests {
    @Test func membersLearnWhoTheOtherIs() throws {
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

    @Test func messagesMayComeByteByByte() {
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

    @Test func aWrongSecretIsRefused() {
        var pair = PeerPair()
        pair.other.secret = PeerSecret([UInt8](repeating: 6, count: 32))
        let (one, other) = pair.run()
        #expect(one.refusal == .wrongSecret && other.refusal == .wrongSecret)
        pair.other.secret = nil
        #expect(pair.run().responder.refusal == .notExpected)
    }

    @Test func anotherClusterIsRefused() {
        var pair = PeerPair()
        pair.other.claim.clusterUUID = "elsewhere"
        let (one, other) = pair.run()
        #expect(one.refusal == .otherCluster && other.refusal == .otherCluster)
    }

    @Test func anotherVersionIsToldToBoth() {
        var pair = PeerPair()
        pair.versions = (1, 2)
        let (one, other) = pair.run()
        #expect(one.refusal == .otherVersion(have: 1, theirs: 2))
        #expect(other.refusal == .otherVersion(have: 2, theirs: 1))
    }

    @Test func whoIsNotTheOneCalledIsNotBelieved() {
        var pair = PeerPair()
        pair.expected = 9
        #expect(pair.run().initiator.refusal == .notExpected)
        // A node that reaches itself.
        pair = PeerPair()
        pair.other = pair.one
        pair.expected = 1
        #expect(pair.run().initiator.refusal == .notExpected)
        // One that has the number but is of another group or epoch, where its judge was asleep.
        for change in [\PeerClaim.group, \PeerClaim.epoch] {
            pair = PeerPair()
            pair.other.claim[keyPath: change] += 1
            let (one, other) = pair.run()
            #expect(one.refusal == .notExpected)
            #expect(other.cipher == nil)
        }
    }

    @Test func theJudgesWordReachesTheCaller() {
        for verdict in [PeerRefusal.removed(epoch: 8), .notExpected] {
            var pair = PeerPair()
            pair.verdict = verdict
            let (one, other) = pair.run()
            #expect(one.refusal == verdict && other.refusal == verdict)
        }
    }

    /// A node that believes it was removed gives up its data.
    @Test func aRemovalThatNobodyProvedIsNotBelieved() {
        var pair = PeerPair()
        pair.verdict = .removed(epoch: 8)
        for place in 9..<50 {
            pair.tamper = { number, message in if number == 1 { message[place] ^= 1 } }
            let refusal = pair.run().initiator.refusal
            if case .removed = refusal { Issue.record("byte \(place)") }
            #expect(refusal != nil)
        }
        // Said to another hello.
        let said = Guarded<[UInt8]>([])
        pair.tamper = { number, message in if number == 1 { said.withLock { $0 = message } } }
        _ = pair.run()
        pair.seed = 2
        pair.tamper = { number, message in if number == 1 { message = said.withLock { $0 } } }
        #expect(pair.run().initiator.refusal == .wrongSecret)
    }

    @Test func noByteCanBeChangedUnseen() {
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
                    // Whoever called has believed the answer before the last message.
                    if number < 2 { #expect(one.cipher == nil, "\(service) \(number) \(place)") }
                }
            }
        }
    }

    @Test func messagesOfOneConnectionAreWorthNothingOnAnother() {
        for number in 0..<3 {
            let said = Guarded<[UInt8]>([])
            var pair = PeerPair()
            pair.tamper = { at, message in if at == number { said.withLock { $0 = message } } }
            #expect(pair.establish() != nil)
            pair.seed = 2
            pair.tamper = { at, message in if at == number { message = said.withLock { $0 } } }
            let (one, other) = pair.run()
            #expect(other.cipher == nil)
            if number < 2 { #expect(one.cipher == nil) }
        }
    }

    /// What a node said, sent back to it as if it were the other's.
    @Test func reflectionsAreRefused() {
        let pair = PeerPair()
        let writer = ByteWriter()
        var caller = pair.initiator()
        caller.start(output: writer)
        let hello = writer.bytes
        writer.removeAll()
        let (_, step) = hello.withView { caller.receive($0, output: writer) { _, _ in nil } }
        guard case .refused = step else {
            Issue.record("a hello is no answer")
            return
        }
        // To the caller's own port.
        var own = PeerHandshake.responder(pair.one, dice: PeerPair.dice(99))
        let (_, reply) = hello.withView { own.receive($0, output: writer) { _, _ in nil } }
        guard case .refused(.notExpected) = reply else {
            Issue.record("\(reply)")
            return
        }
        // The answer, as if it were the end.
        var tampered = pair
        let said = Guarded<[UInt8]>([])
        tampered.tamper = { number, message in
            if number == 1 { said.withLock { $0 = message } }
            if number == 2 { message = said.withLock { $0 } }
        }
        #expect(tampered.run().responder.refusal == .nonsense)
    }

    @Test func strangersShareAChannelAndNothingElse() {
        var pair = PeerPair()
        pair.service = .join
        pair.one.secret = nil
        pair.one.claim.clusterUUID = ""
        pair.one.claim.node = NodeNumber(0)
        pair.expected = 0
        guard case .established(let caller, .join, var sealed) = pair.run().responder else {
            Issue.record("strangers may talk")
            return
        }
        #expect(caller == pair.one.claim)
        // Both ends of one exchange agree, and two exchanges have nothing in common.
        pair.seed = 5
        guard var other = pair.run().initiator.cipher else { return }
        let writer = ByteWriter()
        [1, 2, 3].withView { sealed.seal($0, to: writer) }
        guard case .broken = other.open(writer.view, { _ in }) else {
            Issue.record("another connection's record opened")
            return
        }
    }

    @Test func nothingTellsTheSecret() {
        let secret = PeerPair.secret
        var text = ""
        dump(secret, to: &text)
        dump(PeerPair.me(1), to: &text)
        text += "\(String(describing: secret)) \(PeerPair.me(1))"
        #expect(!text.contains("5"), "\(text)")
    }

    @Test func anyBytesAreRefusedOrWaitedFor() {
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
                if case .established = step { Issue.record("chance is no proof") }
                #expect(writer.count <= 2 * PeerGreeting.bytesMax)
            }
        }
    }
}
