package import Credentials
package import Orchestration

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
