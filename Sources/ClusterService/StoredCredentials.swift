/// Salted keys that prove a password without holding it, as bytes.
package struct StoredCredentials: Hashable, Sendable {
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) {
        self.bytes = bytes
    }
}

/// How passwords become stored credentials, and are checked against them.
package struct PasswordKeeper: Sendable {
    package let store: @Sendable (_ password: String) -> StoredCredentials
    /// Cheap for a password that was right a moment ago.
    package let verify:
        @Sendable (_ user: String, _ password: String, _ stored: StoredCredentials) -> Bool

    package init(
        store: @escaping @Sendable (_ password: String) -> StoredCredentials,
        verify:
            @escaping @Sendable (
                _ user: String, _ password: String, _ stored: StoredCredentials
            ) -> Bool
    ) {
        self.store = store
        self.verify = verify
    }
}
