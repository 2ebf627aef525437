internal import Bytes
internal import Credentials
internal import Orchestration
package import Seams
internal import Vocabulary

/// The identity that a name and a password log in.
package enum LoginOutcome: Hashable, Sendable {
    /// The administrator, with its name.
    case administrator(String)
    /// A local user, by its id.
    case user(String)
    /// A bucket, by its name, with its password: a login of older clients.
    case bucket(String)
    /// A password-less bucket, by its name, with an empty password.
    ///
    /// From where the bucket may be used so, the caller decides.
    case guest(String)

    /// The administrator or local user; nil for a bucket.
    var name: String? {
        switch self {
        case .administrator(let name), .user(let name): name
        case .bucket, .guest: nil
        }
    }
}

/// Logins with a name and a password.
///
/// A name is looked for among the administrator, the local users and the buckets, in this order. Only
/// the first one of that name counts: its password is the right one.
extension UserService {
    private struct Account {
        let outcome: LoginOutcome
        /// Nil if no password is right.
        let stored: [UInt8]?
        /// Whether an empty password is right: a password-less bucket.
        var isOpen = false
    }

    /// Checks a password; takes milliseconds for one that was not checked before.
    ///
    /// - Returns: Nil if the name or the password is wrong.
    package func login(_ user: String, _ password: String) -> LoginOutcome? {
        let account = account(named: user)
        if let account, account.isOpen { return password.isEmpty ? account.outcome : nil }
        let isRight = passwords.verify(
            PasswordLogin(user: user, password: Array(password.utf8)),
            stored: credentials(of: account)
        )
        return isRight ? account?.outcome : nil
    }

    /// The result of `login` if that takes microseconds; nil if the password has to be checked.
    package func knownLogin(_ user: String, _ password: String) -> LoginOutcome?? {
        let account = account(named: user)
        if let account, account.isOpen { return .some(password.isEmpty ? account.outcome : nil) }
        let isRight = passwords.knownResult(
            of: PasswordLogin(user: user, password: Array(password.utf8)),
            stored: credentials(of: account)
        )
        return isRight.map { $0 ? account?.outcome : nil }
    }

    private func credentials(of account: Account?) -> StoredCredentials? {
        account?.stored.flatMap { passwords.credentials(stored: $0) }
    }

    private func account(named name: String) -> Account? {
        // Most requests have a password, and none needs a copy of the whole state.
        cluster.core.withLock { core in
            if let administrator = core.state.administrator, administrator.name == name {
                return Account(outcome: .administrator(name), stored: administrator.credentials)
            }
            if let user = core.state.user(name) {
                return Account(outcome: .user(name), stored: user.credentials)
            }
            guard let bucket = core.state.bucket(named: name) else { return nil }
            let password = bucket.settings.password
            let isOpen = bucket.settings.passwordless != .none
            return Account(
                outcome: isOpen ? .guest(name) : .bucket(name),
                stored: password.isEmpty ? nil : password,
                isOpen: isOpen
            )
        }
    }

    // MARK: Over HTTP, in turn with those of the data port

    /// The clients that have not logged in, on all ports of this node.
    package var strangers: LoginWatch { cluster.environment.network.strangers }

    /// Checks a password on the lane of the checks, after those before it.
    ///
    /// - Returns: Nil if the name or the password is wrong.
    package func checkLogin(
        _ user: String,
        _ password: String,
        from host: String
    ) async -> LoginOutcome? {
        let attempt = PasswordLogin(user: user, password: Array(password.utf8))
        let isKnown = strangers.isKnown(user, from: host, at: cluster.monotonicNanoseconds)
        return await withUnsafeContinuation { caller in
            enterCheck(attempt, isKnown) {
                caller.resume(returning: self.login(user, password))
            }
        }
    }

    private func enterCheck(
        _ attempt: PasswordLogin,
        _ isKnown: Bool,
        _ work: @escaping PasswordChecks.Work
    ) {
        passwords.checks.enter(attempt, isKnown: isKnown, work: work) {
            self.enterCheck(attempt, isKnown, work)
        }
    }

    /// Records a refused login, and logs it unless another one was logged within the last second.
    package func noteRefusedLogin(_ user: String, from host: String) {
        let line = strangers.recordRefusal(user, from: host, at: cluster.monotonicNanoseconds)
        if let line { cluster.environment.trace.warning("login", line) }
    }

    /// The addresses of the cluster's nodes; the connections of these end last.
    func followMembers(of state: ClusterState) {
        strangers.setMembers(state.nodes.map(\.host))
    }
}
