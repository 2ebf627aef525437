internal import Orchestration
internal import Seams

extension ClusterMember {
    /// Whether the cluster lacks an authority, or has one to drop.
    func needsAuthorities(_ state: ClusterState) -> Bool {
        environment.security.certificates != nil
            && RenewedAuthorities.areDue(in: state.secret, at: wallMilliseconds)
    }

    /// The cluster's authorities after a renewal, newest first.
    ///
    /// - Parameters:
    ///   - state: The present state.
    ///   - secrets: Gets the seed of a new authority.
    ///   - change: The order of an operator.
    /// - Returns: The authorities; the present ones if a new one cannot be made.
    func renewedAuthorities(
        of state: ClusterState,
        _ secrets: inout ClusterSecrets,
        _ change: AuthorityRenewal
    ) -> [AuthorityRecord] {
        guard let tools = environment.security.certificates else {
            return state.secret.authorities
        }
        let now = wallMilliseconds
        let hasKey = !secrets.authority.isEmpty
        let renewed = RenewedAuthorities(
            change,
            of: state.secret,
            members: state.members.map(\.number),
            hasKey: hasKey,
            at: now
        )
        guard renewed.needsNew else { return renewed.kept }
        let seed = environment.entropy.bytes(CertificateAuthority.seedByteCount)
        let name = "Divan \((state.uuid ?? "").prefix(8))-\(state.secret.revision + 1)"
        do throws(CertificateError) {
            let certificate = try tools.makeAuthority(seed: seed, name: name)
            var cross: [UInt8] = []
            if let replaced = renewed.kept.first, hasKey {
                let former = CertificateAuthority(
                    certificate: replaced.certificate,
                    seed: secrets.authority
                )
                cross = try tools.makeAuthority(seed: seed, name: name, signedBy: former)
            }
            secrets.authority = seed
            return renewed.adding(certificate, signedByReplaced: cross, at: now)
        } catch {
            logEvent(.error, .node, error.description)
            return renewed.kept
        }
    }
}
