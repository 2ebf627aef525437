import Bytes
import Credentials
import Testing
import Vocabulary
import Wire

/// The handshake of two nodes in memory.
struct PeerPair {
    var one = PeerPair.identity(1)
    var other = PeerPair.identity(2)
    var service = PeerService.control
    var expected: UInt16 = 2
    var versions: (UInt16, UInt16) = (PeerHandshake.version, PeerHandshake.version)
    var seed: UInt64 = 1
    var verdict: PeerRefusal?
    /// May change each message under way, by its number: 0 hello, 1 answer or refusal, 2 finish.
    var tamper: (Int, inout [UInt8]) -> Void = { _, _ in }

    enum Outcome {
        case established(PeerClaim, PeerService, PeerCipher)
        case refused(PeerRefusal)
        case waiting

        var refusal: PeerRefusal? {
            if case .refused(let refusal) = self { refusal } else { nil }
        }

        var cipher: PeerCipher? {
            if case .established(_, _, let cipher) = self { cipher } else { nil }
        }
    }

    static let secret = PeerSecret([UInt8](repeating: 193, count: 32))

    static func identity(_ number: UInt16) -> PeerIdentityProof {
        let claim = PeerClaim(
            node: NodeNumber(number),
            nodeUUID: "node\(number)",
            clusterUUID: "cluster",
            group: 77,
            epoch: 3
        )
        return PeerIdentityProof(claim: claim, secret: secret)
    }

    static func dice(_ seed: UInt64) -> [UInt8] {
        var random = SeededRandom(seed: seed)
        return (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    func initiator() -> PeerHandshake {
        .initiator(
            one,
            service: service,
            expected: NodeNumber(expected),
            dice: PeerPair.dice(2 * seed),
            version: versions.0
        )
    }

    func responder() -> PeerHandshake {
        .responder(other, dice: PeerPair.dice(2 * seed + 1), version: versions.1)
    }

    /// Delivers messages until neither side sends one; they are numbered 0, 1, 2.
    func run() -> (initiator: Outcome, responder: Outcome) {
        var (caller, called) = (initiator(), responder())
        var (first, second) = (Outcome.waiting, Outcome.waiting)
        let writer = ByteWriter()
        caller.start(output: writer)
        for number in 0..<3 {
            var message = writer.bytes
            writer.removeAll()
            tamper(number, &message)
            if message.isEmpty { break }
            if number % 2 == 0 {
                second = step(&called, message, writer)
            } else {
                first = step(&caller, message, writer)
            }
        }
        return (first, second)
    }

    func establish() -> (PeerCipher, PeerCipher)? {
        let (one, other) = run()
        guard let first = one.cipher, let second = other.cipher else { return nil }
        return (first, second)
    }

    private func step(
        _ side: inout PeerHandshake,
        _ message: [UInt8],
        _ writer: ByteWriter
    ) -> Outcome {
        let (consumed, step) = message.withView {
            side.receive($0, output: writer) { _, _ in verdict }
        }
        switch step {
        case .waiting: return .waiting
        case .refused(let refusal): return .refused(refusal)
        case .established(let claim, let service, let cipher):
            #expect(consumed == message.count)
            return .established(claim, service, cipher)
        }
    }
}
