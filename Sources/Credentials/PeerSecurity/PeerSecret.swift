internal import Crypto
package import Vocabulary

/// The secret of a cluster, known only to its nodes: 32 random bytes.
///
/// Its descriptions omit the bytes, so that no log or crash report shows them.
package struct PeerSecret: Sendable, CustomStringConvertible, CustomReflectable {
    package static let byteCount = 32

    package let bytes: [UInt8]

    /// Nil unless there are 32 bytes.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == PeerSecret.byteCount else { return nil }
        self.bytes = bytes
    }

    package func isEqual(to other: PeerSecret) -> Bool {
        areEqualInConstantTime(bytes, other.bytes)
    }

    package var description: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Why a handshake between two nodes was refused.
package enum PeerRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The other side does not have this node's secret.
    case wrongSecret
    case otherCluster
    /// In this epoch of the cluster, this node is no longer a member. The cluster's secret proves
    /// it.
    case removed(epoch: UInt64)
    case otherVersion(have: UInt16, theirs: UInt16)
    /// The node that called announces a lower feature level than the called node's cluster uses.
    case levelTooLow(required: FeatureLevel)
    /// Another node than the one called, a node not known yet, a group that was left behind, or an
    /// unknown service. Retrying later may succeed.
    case notExpected
    /// The received bytes are not a valid handshake.
    case invalidHandshake

    package var description: String {
        switch self {
        case .wrongSecret: "the other node does not know this cluster's secret"
        case .otherCluster: "the other node belongs to another cluster"
        case .removed(let epoch): "this node was removed from its cluster (epoch \(epoch))"
        case .otherVersion(let have, let theirs):
            "the other node uses version \(theirs) of the node protocol, this node \(have)"
        case .levelTooLow(let required):
            "the cluster uses feature level \(required.number), and the node that was refused "
                + "announces a lower one: start it with the release of the other nodes, or a later one"
        case .notExpected: "the other node did not expect this connection, or is not the one called"
        case .invalidHandshake: "the other side sent an invalid handshake"
        }
    }
}
