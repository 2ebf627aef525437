package import Credentials
package import Orchestration

/// The state keeps credentials as the line of text that `Credentials` writes, and does not look
/// into it.
extension Administrator {
    package init(name: String, stored: StoredCredentials) {
        self.init(name: name, credentials: Array(stored.text.utf8))
    }

    /// Nil where the text is of a format that is unknown here: then nobody can log in.
    package var stored: StoredCredentials? {
        StoredCredentials(text: String(decoding: credentials, as: UTF8.self))
    }
}
