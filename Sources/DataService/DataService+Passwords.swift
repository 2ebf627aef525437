internal import Bytes
internal import Credentials
internal import Seams

/// Passwords and what is kept of them, as text, for whoever stores it.
extension DataService {
    /// What to keep of a new password; takes tens of milliseconds, on purpose.
    package func credentialText(password: String) -> String {
        Array(password.utf8).withUnsafeBytes { buffer in
            let derived = StoredCredentials.derive(password: ByteView(buffer)) { _ in
                environment.entropy.bytes(StoredCredentials.saltByteCount)
            }
            return derived.text
        }
    }

    /// Who may log in, by what `credentialText` made; nil takes a user away.
    package func setCredentials(user: String, text: String?) {
        setCredentials(user: user, stored: text.flatMap { StoredCredentials(text: $0) })
    }

    /// Whether a password that came in the clear is right; cheap where it was a moment ago.
    package func verify(user: String, password: String, text: String) -> Bool {
        let login = PasswordLogin(user: user, password: Array(password.utf8))
        return passwords.verify(login, stored: StoredCredentials(text: text))
    }
}
