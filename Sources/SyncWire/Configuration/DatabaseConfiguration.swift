package import Bytes

/// A database of a configuration file, or the body of `PUT /db/`.
package struct DatabaseConfiguration: Equatable, Sendable {
    package let name: String
    package let dialect: GatewayDialect
    package let store: Store
    /// JavaScript; nil for the default, which puts a document into the channels of its member `channels`.
    package let syncFunction: String?
    package let principals: Principals
    package let revisions: Revisions
    package let imports: Imports
    package let isOffline: Bool
    package let features: Features
    package let session: Session
    package let extensions: Extensions
    /// As it was read; with passwords.
    let json: [UInt8]

    /// Where the documents are.
    package struct Store: Equatable, Sendable {
        package enum Kind: Equatable, Sendable {
            /// In memory, and saved to this directory unless it is nil.
            case memory(directory: String?)
            /// In a bucket of the cluster with this address, `http://HOST:8091` or `couchbase://HOST`; nil for the
            /// cluster that the file or the node names.
            case cluster(server: String?)
        }

        package let kind: Kind
        /// The name of the server as the file has it.
        package let server: String?
        package let pool: String
        package let bucket: String
        package let username: String?
        package let password: String?
        /// Where the server is named, or the database if it is not.
        let place: ConfigurationLocation
    }

    package struct Principals: Equatable, Sendable {
        package let users: [PrincipalConfiguration]
        package let roles: [PrincipalConfiguration]
        package let allowsEmptyPassword: Bool
    }

    package struct Revisions: Equatable, Sendable {
        /// The revisions that a branch keeps.
        package let limit: Int
        package let allowsConflicts: Bool
        /// Revisions in the cache; nil for the default.
        package let cacheCount: Int?
        /// How long the body of an old revision is kept; nil for the default.
        package let oldExpirySeconds: Int?
    }

    /// Documents that other programs write into the bucket.
    package struct Imports: Equatable, Sendable {
        package let isEnabled: Bool
        /// JavaScript; nil imports every document.
        package let filter: String?
        /// Whether other programs may write into the bucket.
        package let sharesBucket: Bool
    }

    package struct Features: Equatable, Sendable {
        package let hasUserViews: Bool
        package let hasOIDCTestProvider: Bool
        package let hasPublicAllDocuments: Bool
        /// Nil for the default.
        package let viewQueryTimeoutSeconds: Int?
    }

    package struct Session: Equatable, Sendable {
        package let cookieName: String
        /// Nil: as the listener is.
        package let isSecure: Bool?
        package let isHTTPOnly: Bool
    }

    /// Settings that other modules read, as JSON; nil if absent.
    package struct Extensions: Equatable, Sendable {
        package let eventHandlers: [UInt8]?
        package let oidc: [UInt8]?
    }

    /// Parses the body of `PUT /db/` or `_config`.
    ///
    /// `dialect` is the gateway's; a member `compatibility` overrides it. Returns the notices too.
    ///
    /// - Throws: The first mistake.
    package static func parse(
        _ text: ByteView,
        name: String,
        dialect: GatewayDialect
    ) throws(ConfigurationMistake) -> (DatabaseConfiguration, [ConfigurationNotice]) {
        let source = try SourceText.bounded(text)
        let tree = try ConfigurationTree.parse(source)
        let context = ConfigurationContext(text: source, dialect: dialect)
        let reader = try ConfigurationReader(tree, path: "", context: context)
        let database = try DatabaseConfiguration(name: name, reader)
        return (database, context.notices)
    }

    /// - Throws: The first mistake.
    init(name: String, _ reader: ConfigurationReader) throws(ConfigurationMistake) {
        var reader = reader
        guard DatabaseConfiguration.isName(name) else {
            throw reader.mistake("", "expected a database name of a-z, 0-9 and _$()+-/")
        }
        if reader.value("shadow") != nil {
            throw reader.mistake(
                "shadow",
                "bucket shadowing is replaced by import; remove this key and set \"import_docs\": true"
            )
        }
        self.name = name
        dialect = try GatewayDialect(&reader) ?? reader.context.dialect
        store = try Store(&reader, database: name)
        syncFunction = try reader.string("sync")
        principals = try Principals(&reader)
        revisions = try Revisions(&reader, dialect)
        imports = try Imports(&reader)
        isOffline = try reader.bool("offline") ?? false
        features = try Features(&reader)
        session = try Session(&reader)
        extensions = Extensions(&reader)
        json = reader.text
        _ = try reader.string("name")
        try reader.finish(ignoring: ConfigurationKeys.database)
    }

    /// Whether a name is one of CouchDB's: lower case, digits and `_$()+-/`, a letter first.
    package static func isName(_ name: String) -> Bool {
        guard let first = name.utf8.first, first &- UInt8(ascii: "a") < 26 else { return false }
        return name.utf8.allSatisfy { byte in
            byte &- UInt8(ascii: "a") < 26 || ASCII.digit(byte) != nil
                || "_$()+-/".utf8.contains(byte)
        }
    }
}

extension DatabaseConfiguration.Store {
    /// - Throws: The first mistake.
    fileprivate init(
        _ reader: inout ConfigurationReader,
        database: String
    ) throws(ConfigurationMistake) {
        server = try reader.string("server")
        pool = try reader.string("pool") ?? "default"
        bucket = try reader.string("bucket") ?? database
        username = try reader.string("username")
        password = try reader.string("password")
        place = reader.location(of: "server")
        guard let server else {
            // The dialect 1.4 has no other place for the server's address.
            kind =
                reader.context.dialect == .first
                ? .memory(directory: nil) : .cluster(server: nil)
            return
        }
        if let directory = Self.directory(server) {
            kind = .memory(directory: directory.isEmpty ? nil : directory)
        } else if ["http://", "https://", "couchbase://", "couchbases://"].contains(
            where: server.hasPrefix
        ) {
            kind = .cluster(server: server)
        } else {
            throw reader.mistake("server", "expected walrus:, http://HOST:8091 or couchbase://HOST")
        }
    }

    /// The directory of a server in memory, empty for none; nil if the server is another one.
    private static func directory(_ server: String) -> String? {
        guard server.hasPrefix("walrus:") else { return nil }
        let rest = server.dropFirst("walrus:".count)
        return String(rest.hasPrefix("//") ? rest.dropFirst(2) : rest)
    }
}

extension DatabaseConfiguration.Principals {
    /// - Throws: The first mistake.
    fileprivate init(_ reader: inout ConfigurationReader) throws(ConfigurationMistake) {
        var users = try PrincipalConfiguration.list("users", &reader)
        if let guest = try reader.section("guest") {
            users.removeAll { $0.name == PrincipalConfiguration.guestName }
            users.append(try PrincipalConfiguration(name: PrincipalConfiguration.guestName, guest))
        }
        self.users = users
        roles = try PrincipalConfiguration.list("roles", &reader)
        allowsEmptyPassword = try reader.bool("allow_empty_password") ?? false
    }
}

extension DatabaseConfiguration.Revisions {
    /// - Throws: The first mistake.
    fileprivate init(
        _ reader: inout ConfigurationReader,
        _ dialect: GatewayDialect
    ) throws(ConfigurationMistake) {
        allowsConflicts = try reader.bool("allow_conflicts") ?? true
        let usual = dialect == .first ? 1_000 : allowsConflicts ? 100 : 50
        limit = try reader.integer("revs_limit", in: 1...Int(Int32.max)) ?? usual
        oldExpirySeconds = try reader.integer("old_rev_expiry_seconds")
        let deprecated = try reader.integer("rev_cache_size")
        var count: Int?
        if var cache = try reader.section("cache") {
            if var revisions = try cache.section("rev_cache") {
                count = try revisions.integer("size")
                try revisions.finish(ignoring: ConfigurationKeys.revisionCache)
            }
            try cache.finish(ignoring: ConfigurationKeys.cache)
        }
        cacheCount = count ?? deprecated
    }
}

extension DatabaseConfiguration.Imports {
    /// - Throws: The first mistake.
    fileprivate init(_ reader: inout ConfigurationReader) throws(ConfigurationMistake) {
        switch reader.value("import_docs")?.kind {
        case nil: isEnabled = false
        case .bool(let claim)?: isEnabled = claim
        case .string("continuous")?: isEnabled = true
        default: throw reader.mistake("import_docs", "expected true, false or \"continuous\"")
        }
        filter = try reader.string("import_filter")
        sharesBucket = try reader.bool("enable_shared_bucket_access") ?? isEnabled
    }
}

extension DatabaseConfiguration.Features {
    /// - Throws: The first mistake.
    fileprivate init(_ reader: inout ConfigurationReader) throws(ConfigurationMistake) {
        hasPublicAllDocuments = try reader.bool("disable_public_all_docs") != true
        viewQueryTimeoutSeconds = try reader.integer("view_query_timeout_secs")
        var claims = [false, false]
        if var unsupported = try reader.section("unsupported") {
            claims = [
                try Self.isEnabled("user_views", &unsupported),
                try Self.isEnabled("oidc_test_provider", &unsupported),
            ]
            try unsupported.finish(ignoring: ConfigurationKeys.unsupported)
        }
        hasUserViews = claims[0]
        hasOIDCTestProvider = claims[1]
    }

    /// The member `enabled` of a section; false if either is absent.
    ///
    /// - Throws: The first mistake.
    private static func isEnabled(
        _ key: String,
        _ reader: inout ConfigurationReader
    ) throws(ConfigurationMistake) -> Bool {
        guard var section = try reader.section(key) else { return false }
        let claim = try section.bool("enabled") ?? false
        try section.finish(ignoring: ["unsigned_id_token"])
        return claim
    }
}

extension DatabaseConfiguration.Session {
    /// - Throws: The first mistake.
    fileprivate init(_ reader: inout ConfigurationReader) throws(ConfigurationMistake) {
        cookieName = try reader.string("session_cookie_name") ?? SessionCookie.name
        isSecure = try reader.bool("session_cookie_secure")
        isHTTPOnly = try reader.bool("session_cookie_http_only") ?? false
    }
}

extension DatabaseConfiguration.Extensions {
    fileprivate init(_ reader: inout ConfigurationReader) {
        eventHandlers = reader.json("event_handlers")
        oidc = reader.json("oidc")
    }
}

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
        try reader.sections(key).map { (section) throws(ConfigurationMistake) in
            try PrincipalConfiguration(name: section.name, section.reader)
        }
    }
}
