/// The public keys of a node, 32 bytes each.
package struct NodeKeys: Hashable, Sendable {
    /// Bytes of each key.
    package static let keyByteCount = 32

    /// Ed25519: the node proves it on each connection to another node.
    package let identity: [UInt8]
    /// X25519: what is sealed with it, only the node can open.
    package let sealing: [UInt8]

    /// Nil if a key has another length.
    package init?(identity: [UInt8], sealing: [UInt8]) {
        guard [identity, sealing].allSatisfy({ $0.count == NodeKeys.keyByteCount }) else {
            return nil
        }
        self.identity = identity
        self.sealing = sealing
    }
}
