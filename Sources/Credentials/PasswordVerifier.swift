internal import Bytes
internal import Crypto

/// Checks passwords that come in the clear, and remembers what it found.
///
/// A check is milliseconds of PBKDF2, and HTTP clients send their password with every request; so
/// verdicts are kept, under a keyed hash of user, password and stored key. A changed password
/// changes the stored key, so nothing needs to be told: old verdicts are never found again.
///
/// - Passwords are not kept, and without the secret of this process nothing can be guessed from
///   what is.
/// - Two caches: a stranger's wrong guesses never push out a right password.
/// - A user that does not exist takes as long as a wrong password.
package final class PasswordVerifier: Sendable {
    private typealias Tag = [UInt8]

    /// A set that forgets: when the young are many they become the old, and the old are dropped.
    private struct Remembered {
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
    }

    private let secret: [UInt8]
    private let entriesMax: Int
    private let state = Guarded(State())

    /// A verifier with a random `secret` of its process; each cache keeps `entriesMax` verdicts.
    package init(secret: [UInt8], entriesMax: Int = 1_024) {
        precondition(secret.count >= 16, "a secret must be hard to guess")
        precondition(entriesMax >= 2, "there are two generations")
        self.secret = secret
        self.entriesMax = entriesMax
    }

    /// Whether `login` is right for its user, of whom `stored` is kept; nil for a stranger.
    package func verify(_ login: PasswordLogin, stored: StoredCredentials?) -> Bool {
        // Nowhere slower than SHA-512, and sound where SHA-1 is not.
        let verifier =
            stored?.sha256 ?? .decoy(.sha256, user: login.user, secret: secret)
        let tag = tag(login, verifier)
        let known: Bool? = state.withLock { state in
            if state.right.contains(tag, entriesMax: entriesMax) { return true }
            return state.wrong.contains(tag, entriesMax: entriesMax) ? false : nil
        }
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

    private func tag(_ login: PasswordLogin, _ verifier: StoredCredentials.Verifier) -> Tag {
        var message = verifier.storedKey
        let user = Array(login.user.utf8)
        withUnsafeBytes(of: user.count.littleEndian) { message.append(contentsOf: $0) }
        message += user
        message += login.password
        let key = SymmetricKey(data: secret)
        return Array(HMAC<SHA256>.authenticationCode(for: message, using: key))
    }
}
