internal import Bytes
package import Vocabulary
package import Wire

/// One command, independent of the node that it is sent to.
package struct Request: Sendable {
    package var opcode: Opcode
    package var key: [UInt8]
    package var value: [UInt8] = []
    package var extras: [UInt8] = []
    package var cas = CAS.none
    package var durability: DurabilityRequirement?
    package var preservesExpiry = false
    package var copy = KeyRouter.Copy.active
    /// Whether executing the command twice may differ from executing it once.
    package var isWrite: Bool
    /// Features that the request needs besides those of its options.
    package var features = FeatureSet()
    /// Whether to retry when the document is locked.
    package var waitsForLock = true

    package init(_ opcode: Opcode, key: [UInt8] = [], isWrite: Bool) {
        self.opcode = opcode
        self.key = key
        self.isWrite = isWrite
    }

    /// The features that the connection must have agreed on; without them the server could
    /// misinterpret the request.
    package var needs: FeatureSet {
        var needs = features
        if durability != nil { needs.insert(.syncReplication) }
        if preservesExpiry { needs.insert(.preserveTTL) }
        if durability != nil || preservesExpiry { needs.insert(.alternativeRequest) }
        return needs
    }

    /// Approximate memory of the request.
    package var byteCount: Int { key.count + value.count + 128 }
}

/// An answer that owns its bytes.
package struct Answer: Hashable, Sendable {
    package var status: UInt16
    package var cas: CAS
    package var datatype: Datatype
    package var extras: [UInt8]
    package var value: [UInt8]

    package init(_ frame: Frame) {
        status = frame.header.statusNumber
        cas = frame.cas
        datatype = frame.datatype
        extras = frame.extras.isEmpty ? [] : frame.extras.bytes
        value = frame.value.isEmpty ? [] : frame.value.bytes
    }

    package init(
        status: Status,
        cas: CAS = .none,
        datatype: Datatype = [],
        extras: [UInt8] = [],
        value: [UInt8] = []
    ) {
        self.status = status.rawValue
        self.cas = cas
        self.datatype = datatype
        self.extras = extras
        self.value = value
    }
}
