package import Bytes

/// The public keys of a node, 32 bytes each.
package struct NodeKeys: Hashable, Sendable, CodedFields {
    /// Bytes of each key.
    package static let keyByteCount = 32

    /// Ed25519: the node proves it on each connection to another node.
    package private(set) var identity = [UInt8](repeating: 0, count: keyByteCount)
    /// X25519: what is sealed with it, only the node can open.
    package private(set) var sealing = [UInt8](repeating: 0, count: keyByteCount)

    package init() {}

    /// Nil if a key has another length.
    package init?(identity: [UInt8], sealing: [UInt8]) {
        guard [identity, sealing].allSatisfy({ $0.count == NodeKeys.keyByteCount }) else {
            return nil
        }
        self.identity = identity
        self.sealing = sealing
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.bytes(&identity, count: Self.keyByteCount, "identity key")
        try coder.bytes(&sealing, count: Self.keyByteCount, "sealing key")
    }
}
