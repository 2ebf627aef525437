internal import Bytes
package import Credentials
package import Vocabulary

/// The users that may log in, and a revision that rises with each change of what a login permits.
///
/// A connection caches its privileges with the revision. So a request costs one load and one
/// comparison, and a changed role, a deleted user or a bucket that needs a password now affects the
/// next request of every connection.
///
/// - A user that is deleted and created again is another user: connections of the former one have no
///   privileges. A changed password, name or role does not end a session.
/// - A node that leaves its cluster removes all users. If it is added again it gets the same ones, by
///   their keys, and connections continue.
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
        /// Removed users, some of the last ones.
        var removed: [[UInt8]: Account] = [:]
        var lastIncarnation: UInt64 = 0
    }

    private static let removedMax = 1_024

    private let state = Guarded(State())
    /// The revision, from 1: 0 in a connection means that nothing is cached.
    let word = SharedWord.allocated(1)

    deinit { word.address.deallocate() }

    subscript(name: String) -> Account? { state.withLock { $0.accounts[Array(name.utf8)] } }

    /// Adds or changes a user.
    func set(_ name: String, _ stored: StoredCredentials, grants: Grants) {
        let name = Array(name.utf8)
        state.withLock { state in
            // Keys are salted: a user that is created again has others, also with the same password.
            let former = state.removed.removeValue(forKey: name)
            let same = state.accounts[name] ?? (former?.stored == stored ? former : nil)
            if same == nil { state.lastIncarnation += 1 }
            state.accounts[name] = Account(
                stored: stored,
                grants: grants,
                incarnation: same?.incarnation ?? state.lastIncarnation
            )
            // Under the lock: a connection that has seen the new revision gets the new account.
            countChange()
        }
    }

    func remove(_ name: String) {
        state.withLock { state in
            let name = Array(name.utf8)
            if state.removed.count >= Self.removedMax { state.removed = [:] }
            state.removed[name] = state.accounts.removeValue(forKey: name)
            countChange()
        }
    }

    /// Makes every connection determine its privileges again.
    func countChange() { word.add(1) }
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
            accounts.set(user, stored, grants: grants)
        } else {
            accounts.remove(user)
        }
    }

    /// Applies the settings of a bucket that can change while it is in service.
    package func change(_ settings: BucketSettings) {
        bucket(named: settings.name)?.change(settings)
        // It may need a password now, or have another one.
        accounts.countChange()
    }
}
