internal import Credentials
internal import Orchestration
package import Seams

/// Logins over HTTP, in turn with those of the data port.
extension UserService {
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
        let line = strangers.noteRefusal(user, from: host, at: cluster.monotonicNanoseconds)
        if let line { cluster.environment.trace.warning("login", line) }
    }

    /// The addresses of the cluster's nodes; the connections of these end last.
    func followMembers(of state: ClusterState) {
        strangers.setMembers(state.nodes.map(\.host))
    }
}
