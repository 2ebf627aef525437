import Bytes
import ClusterService
import Indexing
import Orchestration
import TestWorld

/// Payloads of messages between nodes: any bytes decode or are refused, and what is decoded keeps
/// its value when it is encoded and decoded again.
enum PayloadTarget {
    private static let probes = PeerPayloadProbe.allCases

    /// The first byte chooses the kind of payload.
    ///
    /// It is the place of a kind in `PeerPayloadProbe`, or, from 0xe0 on, the agreed state (even) or a
    /// command (odd), or, from 0xf0 on, the request (even) or a reply (odd) of a query. If a kind is
    /// inserted there, the first byte of the seeds of all later kinds has to change.
    static func run(_ view: ByteView) {
        guard view.count > 1 else { return }
        if view[0] >= 0xf0 {
            let payload = view.dropFirst(1)
            return view[0] & 1 == 0 ? rewriteRequest(payload) : rewriteReply(payload)
        }
        if view[0] >= 0xe0 { return rewriteAgreed(view.dropFirst(1), isState: view[0] & 1 == 0) }
        let probe = probes[Int(view[0]) % probes.count]
        guard let written = probe.rewrite(view.dropFirst(1).bytes) else { return }
        require(
            probe.rewrite(written) == written,
            "a payload of \(probe.rawValue) decodes to itself"
        )
    }

    /// The fields of a state, to which mark, schema and checksum are added, or an entry of the log.
    private static func rewriteAgreed(_ view: ByteView, isState: Bool) {
        guard isState else {
            guard let envelope = try? ClusterEnvelope(decoding: view) else { return }
            let again = try? ClusterEnvelope(decoding: envelope.encoded)
            return require(again == envelope, "a command decodes to itself")
        }
        let writer = ByteWriter()
        writer.append("DIVANCLU")
        writer.append(bigEndian: ClusterState.schema)
        writer.append(view)
        writer.append(bigEndian: CRC32.checksum(writer.view))
        guard case .state(let state) = ClusterState.decode(writer.bytes) else { return }
        guard case .state(let again) = ClusterState.decode(state.encoded()) else {
            return require(false, "an encoded state can be decoded")
        }
        require(again == state, "a state decodes to itself")
    }

    private static func rewriteRequest(_ payload: ByteView) {
        guard let request = try? QueryRequest(decoding: payload, skipsRest: true) else { return }
        let again = try? QueryRequest(decoding: request.encoded)
        require(again == request, "a request decodes to itself")
    }

    private static func rewriteReply(_ payload: ByteView) {
        guard let reply = try? QueryReply(decoding: payload, skipsRest: true) else { return }
        let again = try? QueryReply(decoding: reply.encoded)
        require(again == reply, "a reply decodes to itself")
    }
}
