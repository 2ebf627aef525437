internal import Bytes
internal import Crypto

/// Checks passwords received in the clear, and caches the results.
///
/// A check takes milliseconds of PBKDF2, and HTTP clients send their password with every request.
/// Results are therefore cached under a keyed hash of user, password and stored key. A changed
/// password changes the stored key, so cached results need no invalidation: they are not found
/// again.
///
/// - Passwords are not kept, and the cache reveals nothing without the secret of this process.
/// - Right and wrong passwords have caches of their own, so wrong guesses never evict a right
///   password.
/// - Checking an unknown user takes as long as a wrong password.
/// - It holds the cluster's rules for passwords, which both services of a node follow.
package final class PasswordVerifier: Sendable {
    /// Bytes that are hashed as a whole.
    ///
    /// An array hashes each of its bytes by itself, and a stored text has some 470.
    private struct ByteKey: Hashable {
        let bytes: [UInt8]

        func hash(into hasher: inout Hasher) {
            bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        }
    }

    private typealias Tag = ByteKey

    /// A bounded set in two generations: a full young generation replaces the old one.
    private struct Remembered {
        /// Tags used lately.
        var young: Set<Tag> = []
        var old: Set<Tag> = []

        mutating func contains(_ tag: Tag, entriesMax: Int) -> Bool {
            if young.contains(tag) { return true }
            guard old.contains(tag) else { return false }
            insert(tag, entriesMax: entriesMax)
            return true
        }

        mutating func insert(_ tag: Tag, entriesMax: Int) {
            if young.count >= entriesMax / 2 {
                old = young
                young = []
            }
            young.insert(tag)
        }
    }

    private struct State {
        var right = Remembered()
        var wrong = Remembered()
        /// Texts that were parsed lately, with their credentials; nil for an unknown format.
        var parsed: [ByteKey: StoredCredentials?] = [:]
        var rules: PasswordRules
    }

    /// Users of one cluster that send requests at the same time, with some to spare.
    private static let parsedMax = 128

    /// The hash of tags, keyed with the secret: to apply the key takes longer than a tag.
    private let keyedHash: HMAC<SHA256>
    private let entriesMax: Int
    private let state: Guarded<State>
    /// Runs `verify` for all ports of the node.
    package let checks: PasswordChecks
    package let plainLogins = PlainLogins()

    /// A verifier with a random `secret` of its process; each cache keeps `entriesMax` results.
    ///
    /// `post` runs work on the lane of the checks; without one the caller's thread runs them.
    package init(
        secret: [UInt8],
        entriesMax: Int = 1_024,
        post: @escaping @Sendable (@escaping PasswordChecks.Work) -> Void = { $0() }
    ) {
        precondition(secret.count >= 16, "a secret has 16 bytes or more")
        precondition(entriesMax >= 2, "each of two generations has an entry")
        keyedHash = HMAC(key: SymmetricKey(data: secret))
        self.entriesMax = entriesMax
        checks = PasswordChecks(post: post)
        state = Guarded(State(rules: PasswordRules(decoySecret: secret)))
    }

    /// The rules of the node's cluster; before the first `use`, the defaults with a secret of this
    /// process.
    package var rules: PasswordRules { state.withLock { $0.rules } }

    package func use(_ rules: PasswordRules) { state.withLock { $0.rules = rules } }

    /// The credentials of a stored text; nil if the text has an unknown format.
    ///
    /// The newest ones are kept: every request of a user needs the same.
    package func credentials(stored text: [UInt8]) -> StoredCredentials? {
        let key = ByteKey(bytes: text)
        if let parsed = state.withLock({ $0.parsed[key] }) { return parsed }
        let credentials = StoredCredentials(text: String(decoding: text, as: UTF8.self))
        state.withLock { state in
            if state.parsed.count >= Self.parsedMax { state.parsed.removeAll() }
            state.parsed[key] = .some(credentials)
        }
        return credentials
    }

    /// Whether `login` has the user's password.
    ///
    /// `stored` is the user's credentials, nil if the user is unknown.
    package func verify(_ login: PasswordLogin, stored: StoredCredentials?) -> Bool {
        let (verifier, tag, known) = lookUp(login, stored)
        if let known { return known }
        let derived = StoredCredentials.Verifier(
            .sha256,
            password: login.password,
            salt: verifier.salt,
            verifier.iterations
        )
        let isRight =
            areEqualInConstantTime(derived.storedKey, verifier.storedKey) && stored != nil
        state.withLock { state in
            if isRight {
                state.right.insert(tag, entriesMax: entriesMax)
            } else {
                state.wrong.insert(tag, entriesMax: entriesMax)
            }
        }
        return isRight
    }

    /// The cached result of `verify`; nil if that would have to check the password.
    ///
    /// Takes microseconds, so that a caller on an event loop has to leave it only for a new password.
    package func knownResult(of login: PasswordLogin, stored: StoredCredentials?) -> Bool? {
        lookUp(login, stored).result
    }

    /// The keys that a password is compared with, its tag, and the cached result.
    ///
    /// The keys of an unknown user match no password. They are derived for every login but a right
    /// one, so that the time does not show which users exist.
    private func lookUp(
        _ login: PasswordLogin,
        _ stored: StoredCredentials?
    ) -> (verifier: StoredCredentials.Verifier, tag: Tag, result: Bool?) {
        // SHA-256 is never slower than SHA-512, and unlike SHA-1 it is not broken.
        if let verifier = stored?.sha256 {
            let tag = tag(login, verifier)
            let result = known(tag)
            if result != true { _ = decoy(of: login) }
            return (verifier, tag, result)
        }
        let verifier = decoy(of: login)
        let tag = tag(login, verifier)
        return (verifier, tag, known(tag))
    }

    private func decoy(of login: PasswordLogin) -> StoredCredentials.Verifier {
        .decoy(.sha256, user: login.user, rules: rules)
    }

    private func known(_ tag: Tag) -> Bool? {
        state.withLock { state in
            if state.right.contains(tag, entriesMax: entriesMax) { return true }
            return state.wrong.contains(tag, entriesMax: entriesMax) ? false : nil
        }
    }

    private func tag(_ login: PasswordLogin, _ verifier: StoredCredentials.Verifier) -> Tag {
        var message = verifier.storedKey
        let user = Array(login.user.utf8)
        withUnsafeBytes(of: user.count.littleEndian) { message.append(contentsOf: $0) }
        message += user
        message += login.password
        var hash = keyedHash
        hash.update(data: message)
        // Not its iterator, which takes longer than the hash.
        return hash.finalize().withUnsafeBytes { Tag(bytes: [UInt8]($0)) }
    }
}

/// The logins on a node whose passwords crossed the network readable: PLAIN without TLS, by a client on
/// another machine.
package final class PlainLogins: Sendable {
    private struct State {
        var count: UInt64 = 0
        var names: Set<String> = []
        var report: (@Sendable (String) -> Void)?
    }

    /// Names that are remembered: the logins of further users are only counted.
    private static let namesMax = 1_000

    private let state = Guarded(State())

    package init() {}

    /// How many there were since the node's start.
    package var count: UInt64 { state.withLock { $0.count } }

    /// Calls `report` for the first such login of each user from now on, on the thread of the login.
    package func onFirst(_ report: @escaping @Sendable (_ user: String) -> Void) {
        state.withLock { $0.report = report }
    }

    package func record(_ user: String) {
        let report = state.withLock { state in
            state.count += 1
            let isFirst =
                state.names.count < Self.namesMax && state.names.insert(user).inserted
            return isFirst ? state.report : nil
        }
        report?(user)
    }
}
