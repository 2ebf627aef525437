/// A user or a role of a configuration, which each start of the database writes.
package struct PrincipalConfiguration: Equatable, Sendable {
    /// The user without a login.
    package static let guestName = "GUEST"

    package let name: String
    package let password: String?
    package let email: String?
    package let isDisabled: Bool
    package let channels: [String]
    package let roles: [String]

    /// Whether a name has only letters and digits of ASCII and `-+.@%_`.
    package static func isName(_ name: String) -> Bool {
        !name.isEmpty
            && name.utf8.allSatisfy { byte in
                ASCII.digit(byte) != nil || ASCII.lowercased(byte) &- UInt8(ascii: "a") < 26
                    || "-+.@%_".utf8.contains(byte)
            }
    }

    /// - Throws: The first mistake.
    init(name: String, _ reader: ConfigurationReader) throws(ConfigurationMistake) {
        var reader = reader
        guard PrincipalConfiguration.isName(name) else {
            throw reader.mistake("", "expected a name of letters, digits and -+.@%_")
        }
        self.name = name
        // A file may repeat the name; the key counts. `_config` shows that of the guest as an empty text.
        let external = name == PrincipalConfiguration.guestName ? "" : name
        if let repeated = try reader.string("name"), repeated != name, repeated != external {
            throw reader.mistake("name", "expected \(name), the key of this object")
        }
        password = try reader.string("password")
        email = try reader.string("email")
        isDisabled = try reader.bool("disabled") ?? false
        channels = try reader.strings("admin_channels") ?? []
        roles = try reader.strings("admin_roles") ?? []
        try reader.finish(ignoring: ConfigurationKeys.principal)
    }

    /// The members of `key`, users or roles.
    ///
    /// - Throws: The first mistake.
    static func list(
        _ key: String,
        _ reader: inout ConfigurationReader
    ) throws(ConfigurationMistake) -> [PrincipalConfiguration] {
        var principals: [PrincipalConfiguration] = []
        for (name, section) in try reader.sections(key) {
            principals.append(try PrincipalConfiguration(name: name, section))
        }
        return principals
    }
}
