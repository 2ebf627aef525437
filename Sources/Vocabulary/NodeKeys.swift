package import Bytes

/// The public keys of a node, 32 bytes each.
package struct NodeKeys: Hashable, Sendable, CodedFields {
    /// Bytes of each key.
    package static let keyByteCount = 32

    /// An Ed25519 key: on each connection to another node, the node proves that it has the private key.
    package private(set) var identity = [UInt8](repeating: 0, count: keyByteCount)
    /// An X25519 key: only the node can open a message that is sealed with it.
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
