internal import Bytes
package import Credentials
internal import Seams
package import Vocabulary

/// The users that may log in, and a revision that rises with each change of what a login permits.
///
/// A connection caches its privileges with the revision. So a request costs one load and one
/// comparison, and a changed role, a deleted user or a bucket that needs a password now affects the
/// next request of every connection.
///
/// - A user that is deleted and created again is another user: connections of the former one have no
///   privileges. A changed password, name or role does not end a session.
final class AccountTable: Sendable {
    struct Account: Sendable {
        /// Verifies the password.
        let stored: StoredCredentials
        let grants: Grants
        /// Distinguishes the user from an earlier one of the same name.
        let incarnation: UInt64
    }

    private struct State {
        /// By the bytes of the name: every release then finds the same user.
        var accounts: [[UInt8]: Account] = [:]
        var lastIncarnation: UInt64 = 0
    }

    private let state = Guarded(State())
    /// The revision, from 1: 0 in a connection means that nothing is cached.
    let word: SharedWord

    init() {
        let memory = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)
        memory.initialize(to: 1)
        word = SharedWord(at: memory)
    }

    deinit { word.address.deallocate() }

    subscript(name: String) -> Account? { state.withLock { $0.accounts[Array(name.utf8)] } }

    /// Adds or changes a user.
    func set(_ name: String, _ stored: StoredCredentials, _ grants: Grants) {
        let name = Array(name.utf8)
        state.withLock { state in
            if state.accounts[name] == nil { state.lastIncarnation += 1 }
            state.accounts[name] = Account(
                stored: stored,
                grants: grants,
                incarnation: state.accounts[name]?.incarnation ?? state.lastIncarnation
            )
            // Under the lock: a connection that has seen the new revision gets the new account.
            noteChange()
        }
    }

    func remove(_ name: String) {
        state.withLock { state in
            state.accounts[Array(name.utf8)] = nil
            noteChange()
        }
    }

    /// Makes every connection determine its privileges again.
    func noteChange() { word.add(1) }
}

extension DocumentService {
    /// Sets the password and the grants of a user, the administrator included; without `stored`, the
    /// user is removed.
    package func setCredentials(
        user: String,
        stored: StoredCredentials?,
        grants: Grants = .all
    ) {
        if let stored {
            accounts.set(user, stored, grants)
        } else {
            accounts.remove(user)
        }
    }

    /// Applies the settings of a bucket that can change while it is in service.
    package func change(_ settings: BucketSettings) {
        bucket(named: settings.name)?.change(settings)
        // It may need a password now, or have another one.
        accounts.noteChange()
    }
}
