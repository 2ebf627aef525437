package import Bytes

/// A certificate authority that clients of the cluster trust.
package struct AuthorityRecord: Hashable, Sendable, CodedFields {
    /// The number in `/pools/default/trustedCAs`; never given twice.
    package var id: UInt64 = 0
    /// PEM.
    package var certificate: [UInt8] = []
    /// Milliseconds since 1970.
    package var addedAt: UInt64 = 0
    /// When the cluster made the next authority; 0 for its newest one, and for those of operators.
    package var replacedAt: UInt64 = 0
    /// PEM: the certificate of this authority's key that the replaced authority has signed.
    ///
    /// Empty if there is none, or if that one is no longer trusted.
    package var crossCertificate: [UInt8] = []
    /// The node and the file from which an operator loaded it; empty for an authority of the cluster.
    package var host = ""
    package var file = ""

    package init() {}

    /// Whether the cluster made it, rather than an operator.
    package var isGenerated: Bool { file.isEmpty }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&id, "id")
        try coder.field(&certificate, "certificate")
        try coder.field(&addedAt, "time")
        try coder.field(&replacedAt, "time of replacement")
        try coder.field(&crossCertificate, "cross certificate")
        try coder.field(&host, "host")
        try coder.field(&file, "file")
    }
}

/// Adds authorities that an operator loaded, or removes one.
package struct AuthorityChange: Hashable, Sendable, CodedFields {
    /// Their ids are given when the change is applied.
    package var added: [AuthorityRecord] = []
    /// 0 removes none.
    package var removed: UInt64 = 0

    package init() {}

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&added, "added authorities")
        try coder.field(&removed, "removed authority")
    }
}
