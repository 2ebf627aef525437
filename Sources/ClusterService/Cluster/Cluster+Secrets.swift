internal import Credentials
package import Orchestration
internal import Seams
internal import Vocabulary

/// Secrets that all members of a cluster know, and no other node.
struct ClusterSecrets: Hashable {
    /// Replaced after each change of the members.
    var current: [UInt8]
    /// For the salts of names without a user.
    ///
    /// It never changes: a salt that changes is not that of a user.
    var decoys: [UInt8]
    /// The seed of the private key of the cluster's newest authority; empty if there is none.
    var authority: [UInt8] = []

    private static var byteCount: Int { NodeSecrets.seedByteCount }

    init(current: [UInt8], decoys: [UInt8]) {
        self.current = current
        self.decoys = decoys
    }

    /// Nil if the bytes are not two secrets, or three.
    init?(bytes: [UInt8]) {
        let authorityCount = bytes.count - 2 * Self.byteCount
        guard [0, CertificateAuthority.seedByteCount].contains(authorityCount) else { return nil }
        current = Array(bytes.prefix(Self.byteCount))
        decoys = Array(bytes[Self.byteCount..<2 * Self.byteCount])
        authority = Array(bytes.suffix(authorityCount))
    }

    var bytes: [UInt8] { current + decoys + authority }
}

/// The secrets that the members of a cluster share.
extension Cluster {
    /// The secrets of a state; those of this node alone until the cluster has agreed on some.
    func sharedSecrets(of state: ClusterState) -> ClusterSecrets {
        member.identity.secrets.shared(in: state, by: thisNode)
    }

    /// The keys that a copy of the data directory gives a process; for the simulator.
    package var copiedIdentity: PeerIdentityProof { member.identity.peer }

    /// By which an operator recognises this node's key.
    package var fingerprint: String { member.identity.secrets.publicKeys.fingerprint }

    /// Replaces the shared secret by another one.
    ///
    /// - Throws: `AdministrationError` if it was not replaced.
    package func rotateSecrets() async throws(AdministrationError) {
        try await renewSecret(.keep, logging: "The cluster's shared secret was replaced.")
    }

    /// Replaces the shared secret, and changes the cluster's authorities.
    ///
    /// - Throws: `refused`, `busy` or `failed`.
    func renewSecret(
        _ change: AuthorityRenewal,
        logging text: String
    ) async throws(AdministrationError) {
        guard state.isProvisioned else { throw .refused("This node is not part of a cluster.") }
        let member = member
        for _ in 0..<Self.renewalsMax {
            let made = await onControl { member.renewedSecret(member.state, change) }
            guard let next = made else { break }
            let outcome: ClusterOutcome
            do throws(ClusterError) {
                outcome = try await member.propose(.renewSecret(next))
            } catch {
                throw .failed(error)
            }
            switch outcome {
            case .applied, .repeated: return logEvent(.info, .settings, text)
            // Another node replaced it, or the members changed.
            case .refused(.changedMeanwhile): continue
            case .refused(let refusal): throw .refused(refusal.sentence)
            }
        }
        throw .busy(
            "The members are changing, and this node may be one of the new ones. Retry in a moment."
        )
    }

    /// The most attempts: other changes may be agreed on before each one.
    private static let renewalsMax = 64
}

/// The secrets are shown nowhere.
extension ClusterSecrets: CustomReflectable {
    var customMirror: Mirror { Mirror(self, children: [:] as KeyValuePairs<String, Any>) }
}

extension NodeRecord {
    /// By which an operator recognises the node's key.
    package var fingerprint: String { keys.fingerprint }
}

extension NodeSecrets {
    /// The secrets of a state; nil if it has none for this node.
    fileprivate func opened(in state: ClusterState, by node: NodeNumber) -> ClusterSecrets? {
        state.secret.sealed(to: node).flatMap(open).flatMap(ClusterSecrets.init(bytes:))
    }

    func shared(in state: ClusterState, by node: NodeNumber) -> ClusterSecrets {
        opened(in: state, by: node)
            ?? ClusterSecrets(current: ownDecoySecret, decoys: ownDecoySecret)
    }
}

extension ClusterMember {
    /// Another secret, sealed to each member; nil if this node does not know the present one.
    func renewedSecret(
        _ state: ClusterState,
        _ change: AuthorityRenewal = .keep
    ) -> SharedSecret? {
        let entropy = environment.entropy
        let isFirst = state.secret.revision == 0
        var secrets =
            isFirst
            ? identity.secrets.shared(in: state, by: node)
            : identity.secrets.opened(in: state, by: node)
        secrets?.current = entropy.bytes(NodeSecrets.seedByteCount)
        guard var secrets else { return nil }
        var next = SharedSecret()
        next.revision = state.secret.revision + 1
        next.authorities = renewedAuthorities(of: state, &secrets, change)
        for node in state.members {
            let seed = entropy.bytes(NodeSecrets.seedByteCount)
            // A key that is none, which only a member's fault could bring, opens nothing.
            let sealed = NodeSecrets.seal(secrets.bytes, to: node.keys.sealing, seed: seed) ?? []
            next.boxes.append(.init(node: node.number, sealed: sealed))
        }
        return next
    }
}
