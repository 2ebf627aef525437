package import Vocabulary

/// A change of the cluster's authorities that a renewal of the shared secret makes.
package enum AuthorityRenewal: Sendable {
    /// Only what follows from the members and from time.
    case keep
    /// Another authority, or none but the newest if there are several.
    case regenerate
}

/// The authorities of the cluster after a renewal of the shared secret.
package struct RenewedAuthorities: Hashable, Sendable {
    /// Those that stay, newest first.
    package private(set) var kept: [AuthorityRecord]
    /// Whether another one comes in front of them.
    package private(set) var needsNew: Bool

    /// How long a replaced authority stays trusted, unless an operator ends it: 30 days.
    package static let replacedMilliseconds: UInt64 = 30 * 86_400_000

    /// Decides which authorities stay.
    ///
    /// A node that was removed knows the private key, so the members make another authority. Its former ones
    /// stay trusted for a while, because clients may not know the new one.
    ///
    /// - Parameters:
    ///   - change: The order of an operator.
    ///   - secret: The present one.
    ///   - members: The nodes of the cluster.
    ///   - hasKey: Whether the shared secret has the seed of the newest authority's key.
    ///   - milliseconds: The present time, since 1970.
    package init(
        _ change: AuthorityRenewal,
        of secret: SharedSecret,
        members: [NodeNumber],
        hasKey: Bool,
        at milliseconds: UInt64
    ) {
        kept = secret.authorities.filter { !Self.isStale($0, at: milliseconds) }
        let hasRemoved = secret.boxes.contains { !members.contains($0.node) }
        needsNew = kept.isEmpty || hasRemoved || !hasKey
        if !needsNew, change == .regenerate {
            needsNew = kept.count == 1
            kept = Array(kept.prefix(1))
        }
        // The authority that has signed it is not trusted any more.
        if let oldest = kept.indices.last { kept[oldest].crossCertificate = [] }
    }

    /// The authorities with another one in front of them, which replaces the newest one now.
    ///
    /// - Parameters:
    ///   - certificate: PEM.
    ///   - crossCertificate: PEM: the same key, signed by the replaced authority; empty without one.
    ///   - milliseconds: The present time, since 1970.
    /// - Returns: The authorities, newest first.
    package func adding(
        _ certificate: [UInt8],
        signedByReplaced crossCertificate: [UInt8],
        at milliseconds: UInt64
    ) -> [AuthorityRecord] {
        var new = AuthorityRecord()
        new.certificate = certificate
        new.crossCertificate = crossCertificate
        new.addedAt = milliseconds
        var others = kept
        // 0 stands for an authority that was not replaced.
        if !others.isEmpty { others[0].replacedAt = max(milliseconds, 1) }
        return [new] + others
    }

    /// Whether the cluster lacks an authority, or has one to drop.
    package static func areDue(in secret: SharedSecret, at milliseconds: UInt64) -> Bool {
        let authorities = secret.authorities
        return authorities.isEmpty || authorities.contains { isStale($0, at: milliseconds) }
    }

    private static func isStale(_ authority: AuthorityRecord, at milliseconds: UInt64) -> Bool {
        authority.replacedAt != 0
            && authority.replacedAt + replacedMilliseconds < milliseconds
    }
}
