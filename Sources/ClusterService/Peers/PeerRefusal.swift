package import Vocabulary
internal import Wire

/// Why a node does not accept another one.
package enum PeerRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The other side does not have the key that the agreed state has for the node that it says it is.
    case wrongKey
    /// The other node does not know this node's key.
    case keyRefused
    case otherCluster
    /// In this epoch of the cluster, this node is no longer a member. Only a node that has proved the
    /// key of a member can say so.
    case removed(epoch: UInt64)
    case otherVersion(have: UInt16, theirs: UInt16)
    /// The node that called announces a lower feature level than the called node's cluster uses.
    case levelTooLow(required: FeatureLevel)
    /// Another node than the one called, a node not known yet, a group that was left behind, or an
    /// unknown service. Retrying later may succeed.
    case notExpected
    /// The other node is calling this one, or has a connection of the two: one of them is enough.
    case connected
    /// The received bytes are not a valid handshake.
    case invalidHandshake

    package var description: String {
        switch self {
        case .wrongKey: "the other side does not have the key of the node that it says it is"
        case .keyRefused: "the other node does not know this node's key"
        case .otherCluster: "the other node belongs to another cluster"
        case .removed(let epoch): "this node was removed from its cluster (epoch \(epoch))"
        case .otherVersion(let have, let theirs):
            "the other node uses version \(theirs) of the node protocol, this node \(have)"
        case .levelTooLow(let required):
            "the cluster uses feature level \(required.number), and the node that was refused "
                + "announces a lower one: start it with the release of the other nodes, or a later one"
        case .notExpected: "the other node did not expect this connection, or is not the one called"
        case .connected: "the two nodes have another connection"
        case .invalidHandshake: "the other side sent an invalid handshake"
        }
    }
}

/// As sent to the node that is refused.
extension PeerRefusal {
    var message: PeerGreeting.Refusal {
        switch self {
        case .wrongKey, .keyRefused: .init(reason: 1, detail: 0)
        case .otherCluster: .init(reason: 2, detail: 0)
        case .removed(let epoch): .init(reason: 3, detail: epoch)
        case .otherVersion(let have, _): .init(reason: 4, detail: UInt64(have))
        case .notExpected: .init(reason: 5, detail: 0)
        case .invalidHandshake: .init(reason: 6, detail: 0)
        case .connected: .init(reason: 8, detail: 0)
        case .levelTooLow(let required): .init(reason: 7, detail: UInt64(required.number))
        }
    }

    init(_ message: PeerGreeting.Refusal, version: UInt16) {
        switch message.reason {
        case 1: self = .keyRefused
        case 2: self = .otherCluster
        case 3: self = .removed(epoch: message.detail)
        case 4:
            let theirs = UInt16(truncatingIfNeeded: message.detail)
            self = .otherVersion(have: version, theirs: theirs)
        case 5: self = .notExpected
        case 7:
            let level = UInt16(truncatingIfNeeded: message.detail)
            self = .levelTooLow(required: FeatureLevel(level))
        case 8: self = .connected
        default: self = .invalidHandshake
        }
    }
}
