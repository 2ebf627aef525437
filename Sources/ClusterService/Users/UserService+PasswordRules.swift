package import Credentials
internal import Orchestration

/// Keeps the rules for passwords like the agreed settings.
extension UserService {
    /// The rules that this node follows.
    package var passwordRules: PasswordRules { passwords.rules }

    /// Applies the rules of the cluster that this node is in: its settings and its secret.
    func followPasswordRules(of state: ClusterState) {
        var rules = PasswordRules(
            decoySecret: cluster.sharedSecrets(of: state).decoys,
            iterations: Int(state.settings.passwords.iterations),
            offersSHA1: state.settings.passwords.offersSHA1
        )
        rules.allowsPlainWithoutTLS = state.settings.security.allowsPlainWithoutTLS
        rules.hidesPlainPorts = state.settings.security.encryptionLevel == .strict
        rules.certificates = state.settings.security.clientCertificates
        passwords.use(rules)
    }
}
