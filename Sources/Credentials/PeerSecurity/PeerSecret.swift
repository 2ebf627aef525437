internal import Crypto

/// What all nodes of a cluster know and nobody else: 32 random bytes.
///
/// Says nothing of itself, in no log and no crash.
package struct PeerSecret: Sendable, CustomStringConvertible, CustomReflectable {
    package static let byteCount = 32

    package let bytes: [UInt8]

    /// The secret of these bytes; nil unless there are 32.
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

/// Why two nodes do not talk.
package enum PeerRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The other side has not the secret we have.
    case wrongSecret
    case otherCluster
    /// The cluster, in the epoch named, says that we are no longer part of it; proved by the
    /// cluster's secret.
    case removed(epoch: UInt64)
    case otherVersion(have: UInt16, theirs: UInt16)
    /// Another node than the one called, one not known yet, a group left behind, or a service that
    /// is not there: trying again later may help.
    case notExpected
    /// What came is no handshake.
    case nonsense

    package var description: String {
        switch self {
        case .wrongSecret: "the other node does not know this cluster's secret"
        case .otherCluster: "the other node belongs to another cluster"
        case .removed(let epoch): "this node was removed from its cluster (epoch \(epoch))"
        case .otherVersion(let have, let theirs):
            "the other node speaks version \(theirs) between nodes, this one \(have)"
        case .notExpected: "the other node did not expect this connection, or is not the one called"
        case .nonsense: "the other side is no node"
        }
    }
}
