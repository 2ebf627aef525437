package import Bytes
package import JSON

/// Prints configurations for administrators: in the order of Sync Gateway, and without secrets.
///
/// A secret is left out, not masked: a configuration that is read, changed and written again leaves the passwords
/// of users as they are.
enum ConfigurationPrinter {
    /// Members of a file, as Sync Gateway 1.4 prints them; then those of 3.x.
    static let fileNames = [
        "Interface", "SSLCert", "SSLKey", "AdminInterface", "Facebook", "Google", "CORS", "log",
        "logFilePath", "Logging", "Pretty", "MaxIncomingConnections", "CompressResponses",
        "Databases", "Replications", "MaxHeartbeat", "bootstrap", "api", "logging", "replicator",
    ]

    static let databaseNames = [
        "server", "pool", "bucket", "username", "name", "sync", "users", "roles", "revs_limit",
        "import_docs", "import_filter", "event_handlers", "allow_empty_password", "cache",
        "rev_cache_size", "offline", "unsupported", "oidc",
    ]

    private static let secrets: Set<String> = ["password", "validation_key"]

    /// The members of a text in the order of `names`, then the others; with the case of `names`, as Go's.
    ///
    /// - Parameters:
    ///   - text: JSON of an object.
    ///   - names: Names that are compared without the case of ASCII letters.
    /// - Returns: None if the text is no object.
    static func members(_ text: [UInt8], in names: [String]) -> [JSONValue.Member] {
        let tree = text.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        let members = withoutSecrets(tree ?? .null).members ?? []
        var ranked: [(rank: Int, member: JSONValue.Member)] = []
        for member in members {
            let rank =
                names.firstIndex(of: member.name)
                ?? names.firstIndex { name in member.name.withView { ASCII.equals($0, name) } }
            let name = rank.map { names[$0] } ?? member.name
            ranked.append((rank ?? names.count, .init(name: name, value: member.value)))
        }
        var ordered: [JSONValue.Member] = []
        for rank in 0...names.count { ordered += ranked.filter { $0.rank == rank }.map(\.member) }
        return ordered
    }

    /// Users or roles in the order of their names, each with the members that Sync Gateway 1.4 prints, in its order.
    static func principals(_ members: [JSONValue.Member]) -> JSONValue {
        let sorted = members.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        return .object(sorted.map { .init(name: $0.name, value: principal($0.name, $0.value)) })
    }

    private static func sorted(_ value: JSONValue) -> JSONValue {
        let texts = value.array?.compactMap(\.string) ?? []
        return .array(
            texts.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.map { .string($0) }
        )
    }

    private static func principal(_ name: String, _ value: JSONValue) -> JSONValue {
        var left = value.members ?? []
        var printed: [JSONValue.Member] = []
        func move(_ name: String) {
            printed += left.filter { $0.name == name }
            left.removeAll { $0.name == name }
        }
        left.removeAll { ["name", "all_channels"].contains($0.name) || $0.value == .bool(false) }
        let external = name == PrincipalConfiguration.guestName ? "" : name
        printed.append(.init(name: "name", value: .string(external)))
        left = left.map {
            $0.name == "admin_channels" ? .init(name: $0.name, value: sorted($0.value)) : $0
        }
        move("admin_channels")
        // The channels of a user, which its configuration does not have.
        printed.append(.init(name: "all_channels", value: .null))
        for name in ["email", "disabled", "admin_roles", "roles"] { move(name) }
        return .object(printed + left)
    }

    /// A value without members that are secrets, and without the logins of URLs.
    private static func withoutSecrets(_ value: JSONValue) -> JSONValue {
        switch value {
        case .array(let elements): .array(elements.map(withoutSecrets))
        case .object(let members):
            .object(
                members.compactMap { member in
                    if secrets.contains(member.name.lowercased()) { return nil }
                    return .init(name: member.name, value: withoutSecrets(member.value))
                }
            )
        case .string(let text): .string(withoutLogin(text))
        default: value
        }
    }

    /// `http://NAME:PASSWORD@HOST/` as `http://HOST/`.
    private static func withoutLogin(_ text: String) -> String {
        // A text with blanks is a function or a sentence.
        guard let scheme = text.firstRange(of: "://"), text.utf8.allSatisfy({ $0 > 0x20 }) else {
            return text
        }
        let rest = text[scheme.upperBound...]
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard let login = authority.lastIndex(of: "@") else { return text }
        return String(text[..<scheme.upperBound] + rest[rest.index(after: login)...])
    }
}

extension DatabaseConfiguration {
    /// Writes the configuration as `_config` shows it.
    package func writeJSON(to writer: inout JSONWriter) {
        var members = ConfigurationPrinter.members(json, in: ConfigurationPrinter.databaseNames)
        members.removeAll { ["server", "pool", "bucket", "name"].contains($0.name) }
        writer.object { writer in
            if dialect == .first {
                // In the first dialect, memory is where a database without a server is.
                writer.member("server", printedServer ?? "walrus:")
                writer.member("pool", store.pool)
            } else if let server = printedServer {
                writer.member("server", server)
            }
            writer.member("bucket", store.bucket)
            writer.member("name", name)
            for member in members {
                switch (dialect, member.name, member.value) {
                case (.first, "users", .object(let users)), (.first, "roles", .object(let users)):
                    writer.name(member.name)
                    writer.value(ConfigurationPrinter.principals(users))
                case (.first, _, .string(let text)):
                    // Go escapes also what HTML would take for markup.
                    let output = ByteWriter(capacity: text.utf8.count + 16)
                    CanonicalJSON.append(string: text, to: output)
                    output.withView { writer.member(member.name, raw: $0) }
                default: writer.member(member.name, member.value)
                }
            }
        }
    }

    /// The text of a configuration that has the members of another one in place of its own.
    ///
    /// Objects in both are joined. Nil if `changes` is no JSON object.
    package func json(changedBy changes: ByteView) -> [UInt8]? {
        guard let changes = JSONValue.parse(changes), changes.members != nil,
            let own = json.withUnsafeBytes({ JSONValue.parse(ByteView($0)) })
        else { return nil }
        return JSONWriter.text { $0.value(Self.joined(own, changes)) }
    }

    private static func joined(_ own: JSONValue, _ changes: JSONValue) -> JSONValue {
        guard let members = own.members, let changed = changes.members else { return changes }
        var joined = members.filter { changes[$0.name] == nil }
        for member in changed {
            let value = own[member.name].map { Self.joined($0, member.value) } ?? member.value
            joined.append(.init(name: member.name, value: value))
        }
        return .object(joined)
    }

    private var printedServer: String? {
        ConfigurationPrinter.members(json, in: ["server"]).first { $0.name == "server" }?.value
            .string
    }
}

extension GatewayConfiguration {
    /// Writes the file as `/_config` shows it, in the dialect of 1.4 with the databases that there are now.
    package func writeJSON(to writer: inout JSONWriter, _ databases: [DatabaseConfiguration]) {
        let members = ConfigurationPrinter.members(json, in: ConfigurationPrinter.fileNames)
        writer.object { writer in
            for member in members where member.name != "Databases" {
                writer.member(member.name, member.value)
            }
            guard dialect == .first else { return }
            writer.object("Databases") { writer in
                for database in databases {
                    writer.name(database.name)
                    database.writeJSON(to: &writer)
                }
            }
        }
    }
}
