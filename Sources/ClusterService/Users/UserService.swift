internal import Credentials
package import Orchestration
internal import Seams
package import Vocabulary

/// Local users: create, change, delete, and their passwords.
package final class UserService: Sendable {
    let cluster: Cluster
    let passwords: PasswordVerifier
    let derivation: PasswordDerivation

    init(_ cluster: Cluster, _ passwords: PasswordVerifier, _ derivation: PasswordDerivation) {
        self.cluster = cluster
        self.passwords = passwords
        self.derivation = derivation
        let (events, environment) = (cluster.events, cluster.environment)
        passwords.plainLogins.onFirst { user in
            let text =
                "A client on another machine has sent the password of \"\(user)\" without TLS (PLAIN). "
                + "Let it use TLS or SCRAM; allowPlainWithoutTLS=false (POST /settings/security) "
                + "refuses such logins."
            events.log(.warning, .node, text, environment)
        }
    }

    /// How many clients on other machines have sent a password without TLS since this node's start.
    package var plainLoginCount: UInt64 { passwords.plainLogins.count }

    /// Checks the form of a user.
    ///
    /// - Returns: The errors; empty if `put` would accept the form now.
    package func flaws(ofUser id: String, _ parameters: FormParameters) -> [FieldError] {
        let form = UserForm(parameters, id: id, state: cluster.state)
        guard form.errors.isEmpty else { return form.errors }
        let change = UserChange(
            id: id,
            name: form.name,
            roles: form.roles,
            password: form.password.map { _ in .init(credentials: [], changedSeconds: 0) }
        )
        return cluster.state.refusal(of: change).map { [FieldError("_", $0.sentence)] } ?? []
    }

    /// Creates a user, or replaces its full name and roles, and its password if the form has one.
    ///
    /// - Parameters:
    ///   - id: The user's id.
    ///   - parameters: The form.
    ///   - login: The administrator or local user that orders it.
    ///   - precondition: The user as the request's author has seen it; if it differs, the request is
    ///     overtaken.
    /// - Throws: `invalid`, `overtaken` or `failed`.
    package func put(
        _ id: String,
        _ parameters: FormParameters,
        by login: String,
        precondition: Precondition<UserChange.Basis> = .any
    ) async throws(AdministrationError) {
        let flaws = flaws(ofUser: id, parameters)
        guard flaws.isEmpty else { throw .invalid(flaws) }
        let state = cluster.state
        let form = UserForm(parameters, id: id, state: state)
        guard form.errors.isEmpty else { throw .invalid(form.errors) }
        var change = UserChange(
            id: id,
            name: form.name,
            roles: form.roles,
            password: nil,
            was: precondition
        )
        if let password = form.password { change.password = try await newPassword(password) }
        // A user or a bucket of a role can be deleted while the request waits for the log.
        try await carryUser(.putUser(change), by: login)
    }

    /// Deletes a user.
    ///
    /// - Parameters:
    ///   - id: The user's id.
    ///   - login: The administrator or local user that orders it.
    /// - Throws: `unknown`, `invalid` or `failed`.
    package func delete(_ id: String, by login: String) async throws(AdministrationError) {
        guard cluster.state.user(id) != nil else { throw .unknown }
        do throws(AdministrationError) {
            try await cluster.carry([.deleteUser(id: id)], by: login, overtakenBy: [.userUnknown])
        } catch {
            throw error == .overtaken ? .unknown : error
        }
    }

    /// Changes a user's password.
    ///
    /// - Parameters:
    ///   - user: The user as it was when its present password was checked. If the password was changed
    ///     since, the request is overtaken.
    ///   - parameters: The form.
    ///   - login: The login that sent the request; the user itself, or one with the permission.
    /// - Throws: `invalid`, `overtaken` or `failed`.
    package func changePassword(
        of user: LocalUser,
        _ parameters: FormParameters,
        by login: String
    ) async throws(AdministrationError) {
        let text = parameters["password"] ?? ""
        if let flaw = ClusterForm.flaw(ofPassword: text) {
            throw .invalid([FieldError("password", flaw)])
        }
        let password = try await newPassword(text)
        try await carryUser(
            .changePassword(PasswordChange(id: user.id, password: password, was: user.credentials)),
            by: login
        )
    }

    // MARK: Parts

    /// The stored keys of a new password; nil if the node is stopping.
    func credentials(of password: String) async -> [UInt8]? {
        await derivation.credentials(of: password, passwordRules)
    }

    private func newPassword(
        _ text: String
    ) async throws(AdministrationError) -> UserChange.Password {
        guard let credentials = await credentials(of: text) else { throw .stopping }
        return UserChange.Password(
            credentials: credentials,
            changedSeconds: cluster.wallMilliseconds / 1_000
        )
    }

    /// As `carry`; a conflict with a change of another request is overtaken, so that the form is
    /// checked again and the answer names the field.
    private func carryUser(
        _ command: ClusterCommand,
        by login: String
    ) async throws(AdministrationError) {
        try await cluster.carry(
            [command],
            by: login,
            overtakenBy: [.changedMeanwhile, .bucketUnknown, .userUnknown, .userExists]
        )
    }
}
