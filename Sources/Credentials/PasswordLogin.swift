package import Bytes

/// A user and a password received in the clear, by SASL PLAIN or HTTP Basic.
package struct PasswordLogin: Equatable, Sendable {
    package let user: String
    package let password: [UInt8]

    package init(user: String, password: [UInt8]) {
        self.user = user
        self.password = password
    }

    /// Parses SASL PLAIN (RFC 4616): authorization NUL user NUL password; nil if malformed.
    ///
    /// Acting for another user is not supported, so the first part must be empty or the user.
    package init?(plain message: ByteView) {
        let parts = message.bytes.split(separator: 0, omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[1].isEmpty, parts[0].isEmpty || parts[0] == parts[1],
            let user = String(validating: parts[1], as: UTF8.self)
        else { return nil }
        self.init(user: user, password: Array(parts[2]))
    }
}
