import Bytes
import Credentials
import TestWorld
import Vocabulary
import Wire

/// The peer port with bytes of an unauthenticated sender: the parsers accept any input without a
/// crash, and no input succeeds in logging in.
final class PeerTarget {
    private let claim = PeerClaim(
        node: NodeNumber(1),
        nodeUUID: "one",
        clusterUUID: "cluster",
        group: 1,
        epoch: 1
    )
    private let secret = PeerSecret([UInt8](repeating: 7, count: PeerSecret.byteCount))

    /// The first byte chooses the tested part: frames, handshake of either side, or records.
    func run(_ view: ByteView) {
        guard view.count > 1 else { return }
        let rest = view.dropFirst(1)
        switch view[0] & 3 {
        case 0: walk(rest)
        case 1: greet(rest, isCaller: false)
        case 2: greet(rest, isCaller: true)
        default: open(rest)
        }
    }

    private func walk(_ view: ByteView) {
        for decoder in [PeerFrameDecoder(), PeerFrameDecoder(payloadBytesMax: 100)] {
            var rest = view
            while case .frame(let frame) = decoder.next(in: rest) {
                require(frame.byteCount <= rest.count, "a frame lies in the view")
                let writer = ByteWriter()
                PeerFrame.append(
                    kind: frame.kind,
                    call: frame.call,
                    payload: frame.payload,
                    to: writer
                )
                let said = rest.slice(0, frame.byteCount)
                require(writer.view.equals(said), "a decoded message encodes to the same bytes")
                rest = rest.dropFirst(frame.byteCount)
            }
        }
    }

    private func greet(_ view: ByteView, isCaller: Bool) {
        if case .message(let message, let count) = PeerGreeting.next(
            in: view,
            version: PeerHandshake.version
        ) {
            let writer = ByteWriter()
            message.appendWithoutProof(version: PeerHandshake.version, to: writer)
            require(
                count >= writer.count + PeerGreeting.partCount,
                "a message has its fields, and perhaps fields of a later release"
            )
        }
        let identity = PeerIdentityProof(claim: claim, secret: secret)
        let dice = [UInt8](repeating: 9, count: PeerHandshake.diceCount)
        var side =
            isCaller
            ? PeerHandshake.initiator(
                identity,
                service: .control,
                expected: NodeNumber(2),
                dice: dice
            )
            : PeerHandshake.responder(identity, dice: dice)
        let writer = ByteWriter()
        if isCaller { side.start(output: writer) }
        var rest = view
        while !rest.isEmpty {
            let (consumed, step) = side.receive(rest, output: writer) { _, _ in nil }
            require(consumed <= rest.count, "only received bytes are consumed")
            switch step {
            case .waiting(let needed):
                require(consumed > 0 || needed > rest.count, "a complete record opens")
                if consumed == 0 { return }
                rest = rest.dropFirst(consumed)
            case .refused: return
            case .established: fatalError("a handshake succeeded without the secret")
            }
        }
    }

    /// Records of a channel without a secret: an intact record opens for any content, any other is
    /// rejected.
    private func open(_ view: ByteView) {
        guard var (one, other) = channel() else { fatalError("a channel needs no secret") }
        var broken = other
        if case .opened = broken.open(view, { _ in }) { fatalError("random bytes opened a record") }
        let writer = ByteWriter()
        one.seal(view, to: writer)
        var isSame = false
        if case .opened = other.open(writer.view, { isSame = $0.equals(view) }) {
            require(isSame, "a sealed record opens")
        } else {
            fatalError("a sealed record opens")
        }
    }

    private func channel() -> (PeerCipher, PeerCipher)? {
        let identity = PeerIdentityProof(claim: claim, secret: nil)
        let dice = [UInt8](repeating: 4, count: PeerHandshake.diceCount)
        let otherDice = [UInt8](repeating: 5, count: PeerHandshake.diceCount)
        var caller = PeerHandshake.initiator(
            identity,
            service: .join,
            expected: NodeNumber(0),
            dice: dice
        )
        var called = PeerHandshake.responder(identity, dice: otherDice)
        let (there, back) = (ByteWriter(), ByteWriter())
        caller.start(output: there)
        _ = called.receive(there.view, output: back) { _, _ in nil }
        there.removeAll()
        let (_, first) = caller.receive(back.view, output: there) { _, _ in nil }
        let (_, second) = called.receive(there.view, output: back) { _, _ in nil }
        guard case .established(_, _, let one) = first, case .established(_, _, let other) = second
        else { return nil }
        return (one, other)
    }
}
