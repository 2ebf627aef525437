import Bytes
import ClusterService
import TestWorld
import Vocabulary
import Wire

/// The peer port behind the handshake of TLS: the parsers accept any input without a crash,
/// and no input makes a side accept one whose key is not expected.
final class PeerTarget {
    private let claim = PeerClaim(
        node: NodeNumber(1),
        nodeUUID: "one",
        clusterUUID: "cluster",
        group: 1,
        epoch: 1
    )

    /// The first byte chooses the tested part: frames, the handshake of either side, or a whole link.
    func run(_ view: ByteView) {
        guard view.count > 1 else { return }
        let rest = view.dropFirst(1)
        switch view[0] % 4 {
        case 0: walk(rest)
        case 1: greet(rest, isCaller: false)
        case 2: greet(rest, isCaller: true)
        default: FuzzedLink().run(rest)
        }
    }

    private func walk(_ view: ByteView) {
        var rest = view
        while case .frame(let frame) = LinkFrameDecoder.next(in: rest) {
            require(frame.byteCount <= rest.count, "a frame lies in the view")
            let writer = ByteWriter()
            LinkFrame.append(frame.kind, frame.stream, payload: frame.payload, to: writer)
            let said = rest.slice(0, frame.byteCount)
            require(writer.view.equals(said), "a decoded frame encodes to the same bytes")
            rest = rest.dropFirst(frame.byteCount)
        }
    }

    private func greet(_ view: ByteView, isCaller: Bool) {
        if case .message(let message, let count) = PeerGreeting.next(
            in: view,
            version: PeerHandshake.version
        ) {
            let writer = ByteWriter()
            message.append(version: PeerHandshake.version, to: writer)
            require(
                count >= writer.count,
                "a message has its fields, and perhaps fields of a later release"
            )
        }
        let side =
            isCaller
            ? PeerHandshake.initiator(claim, service: .main, expected: NodeNumber(2))
            : PeerHandshake.responder(claim)
        let writer = ByteWriter()
        side.start(output: writer)
        var rest = view
        while !rest.isEmpty {
            let (consumed, step) = side.receive(rest, output: writer) { _, _ in .wrongKey }
            require(consumed <= rest.count, "only received bytes are consumed")
            switch step {
            case .waiting(let needed):
                require(consumed > 0 || needed > rest.count, "a complete message is handled")
                if consumed == 0 { return }
                rest = rest.dropFirst(consumed)
            case .refused: return
            case .established: fatalError("a handshake succeeded against the validation")
            }
        }
    }
}
