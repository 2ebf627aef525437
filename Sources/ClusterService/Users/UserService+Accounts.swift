package import Credentials
package import Orchestration
internal import Vocabulary

/// Keeps the users of the data plane like those of the agreed state.
extension UserService {
    /// Adds all users, before the data service listens.
    func addUsers(of state: ClusterState) {
        setAdministrator(of: state)
        for user in state.users { set(user) }
    }

    /// Removes all users: this node is no longer in their cluster.
    func removeUsers(of state: ClusterState) {
        if let administrator = state.administrator { removeUser(administrator.name) }
        for user in state.users { removeUser(user.id) }
    }

    func updateAdministrator(_ before: ClusterState, _ now: ClusterState) {
        if let old = before.administrator, old.name != now.administrator?.name {
            removeUser(old.name)
        }
        setAdministrator(of: now)
    }

    /// Applies created, changed and deleted local users.
    func updateUsers(_ ids: [String], of state: ClusterState) {
        for id in ids {
            if let user = state.user(id) { set(user) } else { removeUser(id) }
        }
    }

    /// Applies the difference between two states, after a snapshot was received.
    ///
    /// A snapshot does not show whether a user with other keys was deleted and created again. So the
    /// connections of such a user have to log in again, as if it was.
    func replaceUsers(_ before: ClusterState, _ now: ClusterState) {
        for old in before.users where now.user(old.id)?.credentials != old.credentials {
            removeUser(old.id)
        }
        updateAdministrator(before, now)
        for user in now.users where user != before.user(user.id) { set(user) }
    }

    private func setAdministrator(of state: ClusterState) {
        guard let administrator = state.administrator else { return }
        cluster.dataPlane.setCredentials(
            user: administrator.name,
            stored: administrator.stored,
            grants: .all
        )
    }

    private func set(_ user: LocalUser) {
        let text = String(decoding: user.credentials, as: UTF8.self)
        cluster.dataPlane.setCredentials(
            user: user.id,
            stored: StoredCredentials(text: text),
            grants: user.roles
        )
    }

    private func removeUser(_ name: String) {
        cluster.dataPlane.setCredentials(user: name, stored: nil, grants: .none)
    }

    // MARK: Rules for passwords

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

/// The state keeps credentials as the text that `Credentials` writes, without parsing it.
extension Administrator {
    package init(name: String, stored: StoredCredentials) {
        self.init(name: name, credentials: Array(stored.text.utf8))
    }

    /// Nil if the text has an unknown format: then the administrator cannot log in.
    package var stored: StoredCredentials? {
        StoredCredentials(text: String(decoding: credentials, as: UTF8.self))
    }
}
