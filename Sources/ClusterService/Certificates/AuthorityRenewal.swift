internal import Orchestration
internal import Seams
internal import Vocabulary

/// A change of the cluster's authorities that a renewal of the shared secret makes.
enum AuthorityRenewal {
    /// Only what follows from the members and from time.
    case keep
    /// Another authority, or none but the newest if there are several.
    case regenerate
}

extension SharedSecret {
    /// How long a replaced authority stays trusted, unless an operator ends it.
    static let replacedMilliseconds: UInt64 = 30 * 86_400_000

    /// Whether an authority was replaced so long ago that it is dropped.
    func hasStaleAuthority(at milliseconds: UInt64) -> Bool {
        authorities.contains { Self.isStale($0, at: milliseconds) }
    }

    static func isStale(_ authority: AuthorityRecord, at milliseconds: UInt64) -> Bool {
        authority.replacedAt != 0
            && authority.replacedAt + replacedMilliseconds < milliseconds
    }
}

extension ClusterMember {
    /// Whether the cluster lacks an authority, or has one to drop.
    func needsAuthorities(_ state: ClusterState) -> Bool {
        guard environment.security.certificates != nil else { return false }
        return state.secret.authorities.isEmpty
            || state.secret.hasStaleAuthority(at: wallMilliseconds)
    }

    /// The cluster's authorities after a renewal, newest first.
    ///
    /// A node that was removed knows the private key, so the members make another authority. Its former ones stay
    /// trusted for a while, because clients may not know the new one.
    ///
    /// - Parameters:
    ///   - state: The present state.
    ///   - secrets: Gets the seed of a new authority.
    ///   - change: What an operator has ordered.
    /// - Returns: The authorities.
    func renewedAuthorities(
        of state: ClusterState,
        _ secrets: inout ClusterSecrets,
        _ change: AuthorityRenewal
    ) -> [AuthorityRecord] {
        guard let tools = environment.security.certificates else {
            return state.secret.authorities
        }
        let now = wallMilliseconds
        var authorities = state.secret.authorities.filter { !SharedSecret.isStale($0, at: now) }
        let hasRemoved = state.secret.boxes.contains { box in
            !state.members.contains { $0.number == box.node }
        }
        var isNew = authorities.isEmpty || hasRemoved || secrets.authority.isEmpty
        if !isNew, change == .regenerate {
            isNew = authorities.count == 1
            authorities = Array(authorities.prefix(1))
        }
        guard isNew else { return authorities }
        let seed = environment.entropy.bytes(CertificateAuthority.seedByteCount)
        let name = "Divan \((state.uuid ?? "").prefix(8))-\(state.secret.revision + 1)"
        do throws(CertificateError) {
            var new = AuthorityRecord()
            new.certificate = try tools.makeAuthority(seed: seed, name: name)
            new.addedAt = now
            secrets.authority = seed
            if !authorities.isEmpty { authorities[0].replacedAt = max(now, 1) }
            return [new] + authorities
        } catch {
            logEvent(.error, .node, error.description)
            return authorities
        }
    }
}
