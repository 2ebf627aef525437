import Bytes
import ClusterService
import TestWorld

/// Payloads of messages between nodes: any bytes decode or are refused, and what is decoded keeps
/// its value when it is encoded and decoded again.
enum PayloadTarget {
    private static let probes = PeerPayloadProbe.allCases

    /// The first byte chooses the kind of payload.
    static func run(_ view: ByteView) {
        guard view.count > 1 else { return }
        let probe = probes[Int(view[0]) % probes.count]
        guard let written = probe.rewrite(view.dropFirst(1).bytes) else { return }
        require(
            probe.rewrite(written) == written,
            "a payload of \(probe.rawValue) decodes to itself"
        )
    }
}
