package import Bytes

extension GatewayDialect {
    /// The key `compatibility`: `1.4`, `3`, or another version of these; nil if it is absent.
    ///
    /// - Throws: The value is another one.
    init?(_ reader: inout ConfigurationReader) throws(ConfigurationMistake) {
        guard let text = try reader.string("compatibility") else { return nil }
        switch text.split(separator: ".").first {
        case "1": self = .first
        case "2", "3", "4": self = .third
        default: throw reader.mistake("compatibility", "expected \"1.4\" or \"3\"")
        }
    }

    /// The dialect that a file has by its form: 1.4 if it has back-quotes or a list `log`.
    fileprivate init(_ tree: ConfigurationTree, _ text: SourceText) {
        guard case .object(let members) = tree.kind else {
            self = .third
            return
        }
        let hasLog = members.contains { member in
            member.name.withView { ASCII.equals($0, "log") }
        }
        self = hasLog || text.hasBackQuotes ? .first : .third
    }
}

/// A configuration file of the gateway: those of Sync Gateway 1.x, 2.x and 3.x start it unchanged.
package struct GatewayConfiguration: Equatable, Sendable {
    package let dialect: GatewayDialect
    package let listeners: Listeners
    package let cors: CrossOriginPolicy?
    package let log: Log
    package internal(set) var http: HTTP
    /// The cluster that databases without a server of their own are in; nil for none.
    package let cluster: Cluster?
    package let extensions: Extensions
    /// In the order of the file.
    package let databases: [DatabaseConfiguration]
    /// For the log, once.
    package let notices: [ConfigurationNotice]
    /// The file as it was read; with passwords.
    let json: [UInt8]

    package struct Listeners: Equatable, Sendable {
        package let publicInterface: ListenAddress
        package let adminInterface: ListenAddress
        package let metricsInterface: ListenAddress?
        /// Nil if the listeners have no TLS; then `keyPath` is nil too.
        package let certificatePath: String?
        package let keyPath: String?
    }

    package struct Log: Equatable, Sendable {
        /// `CRUD+`, `HTTP` and so on; `*` for all.
        package let keys: [String]
        package let level: String?
        package let path: String?
        /// `none`, `partial`, `full` or `unset`.
        package let redaction: String?
    }

    package struct HTTP: Equatable, Sendable {
        /// Answers have line ends and blanks.
        package internal(set) var isPretty: Bool
        /// 0 for no bound.
        package let connectionsMax: Int
        package let compressesResponses: Bool
        /// 0 for no bound.
        package let heartbeatSecondsMax: Int
        /// 0 for no bound.
        package let replicationsMax: Int
    }

    package struct Cluster: Equatable, Sendable {
        package let server: String
        package let username: String?
        package let password: String?
    }

    /// Settings that other modules read, as JSON; nil if absent.
    package struct Extensions: Equatable, Sendable {
        package let facebook: [UInt8]?
        package let google: [UInt8]?
        package let persona: [UInt8]?
        package let replications: [UInt8]?
    }

    /// Parses a file.
    ///
    /// - Throws: The first mistake: its line and column in the file, and what was expected.
    package init(_ text: ByteView) throws(ConfigurationMistake) {
        let source = try SourceText.bounded(text)
        let tree = try ConfigurationTree.parse(source)
        let form = GatewayDialect(tree, source)
        // The dialect decides what unknown keys are, so it is known before a key is read.
        var probe = try ConfigurationReader(
            tree,
            path: "",
            context: ConfigurationContext(text: source, dialect: form)
        )
        let dialect = try GatewayDialect(&probe) ?? form
        let context = ConfigurationContext(text: source, dialect: dialect)
        var reader = try ConfigurationReader(tree, path: "", context: context)
        _ = try reader.string("compatibility")
        var api = try reader.section("api")
        self.dialect = dialect
        json = reader.text
        listeners = try Listeners(&reader, &api)
        cors = try CrossOriginPolicy.find(&reader, &api)
        log = try Log(&reader)
        http = try HTTP(&reader, &api)
        cluster = try Cluster.find(&reader)
        extensions = Extensions(&reader)
        databases = try reader.sections("databases").map {
            (section) throws(ConfigurationMistake) in
            try DatabaseConfiguration(name: section.name, section.reader)
        }
        try api?.finish(ignoring: ConfigurationKeys.api)
        try reader.finish(ignoring: ConfigurationKeys.file)
        notices = context.notices
    }
}

extension SourceText {
    /// Replaces the back-quotes of a text.
    ///
    /// - Throws: The text is larger than `SyncLimits.configurationBytesMax`.
    static func bounded(_ text: ByteView) throws(ConfigurationMistake) -> SourceText {
        guard text.count <= SyncLimits.configurationBytesMax else {
            throw ConfigurationMistake(
                position: SourcePosition(line: 1, column: 1),
                path: "",
                reason: "expected at most \(SyncLimits.configurationBytesMax >> 20) MB"
            )
        }
        return SourceText(text)
    }
}

extension GatewayConfiguration.Listeners {
    /// - Throws: The first mistake.
    fileprivate init(
        _ reader: inout ConfigurationReader,
        _ api: inout ConfigurationReader?
    ) throws(ConfigurationMistake) {
        let older = (
            try reader.address("interface"), try reader.address("adminInterface"),
            try reader.address("metricsInterface")
        )
        publicInterface = try api?.address("public_interface") ?? older.0 ?? .usualPublic
        adminInterface = try api?.address("admin_interface") ?? older.1 ?? .usualAdministration
        metricsInterface = try api?.address("metrics_interface") ?? older.2
        var certificate = try reader.string("SSLCert")
        var key = try reader.string("SSLKey")
        if var https = try api?.section("https") {
            certificate = try https.string("tls_cert_path") ?? certificate
            key = try https.string("tls_key_path") ?? key
            try https.finish(ignoring: ConfigurationKeys.https)
        }
        guard (certificate == nil) == (key == nil) else {
            throw reader.mistake(
                certificate == nil ? "SSLKey" : "SSLCert",
                "expected both a certificate and a key"
            )
        }
        certificatePath = certificate
        keyPath = key
    }
}

extension CrossOriginPolicy {
    /// - Throws: The first mistake.
    fileprivate static func find(
        _ reader: inout ConfigurationReader,
        _ api: inout ConfigurationReader?
    ) throws(ConfigurationMistake) -> CrossOriginPolicy? {
        let older = try reader.section("CORS")
        guard var section = try api?.section("cors") ?? older else { return nil }
        let cors = CrossOriginPolicy(
            origins: try section.strings("Origin") ?? [],
            loginOrigins: try section.strings("LoginOrigin", or: "login_origin") ?? [],
            headers: try section.strings("Headers") ?? [],
            maxAgeSeconds: try section.integer("MaxAge", or: "max_age") ?? 0
        )
        try section.finish(ignoring: [])
        return cors
    }
}

extension GatewayConfiguration.Log {
    /// - Throws: The first mistake.
    fileprivate init(_ reader: inout ConfigurationReader) throws(ConfigurationMistake) {
        var keys = try reader.strings("log")
        var (level, path, redaction): (String?, String?, String?)
        if var logging = try reader.section("logging") {
            path = try logging.string("log_file_path")
            redaction = try logging.string("redaction_level")
            // `default` is the section of 1.x, `console` that of 2.x and 3.x.
            for name in ["default", "console"] {
                guard var section = try logging.section(name) else { continue }
                keys = try section.strings("log_keys", or: "logKeys") ?? keys
                // Old files have a number here.
                if case .string(let text)? = section.value("log_level", or: "logLevel")?.kind {
                    level = text
                }
                path = try section.string("logFilePath") ?? path
                try section.finish(ignoring: ConfigurationKeys.console)
            }
            try logging.finish(ignoring: ConfigurationKeys.logging)
        }
        self.keys = keys ?? []
        self.level = level
        self.path = path
        self.redaction = redaction
    }
}

extension GatewayConfiguration.HTTP {
    /// - Throws: The first mistake.
    fileprivate init(
        _ reader: inout ConfigurationReader,
        _ api: inout ConfigurationReader?
    ) throws(ConfigurationMistake) {
        let olderPretty = try reader.bool("pretty")
        isPretty = try api?.bool("pretty") ?? olderPretty ?? false
        let olderConnections = try reader.integer("maxIncomingConnections")
        connectionsMax = try api?.integer("max_connections") ?? olderConnections ?? 0
        let olderCompression = try reader.bool("compressResponses")
        compressesResponses = try api?.bool("compress_responses") ?? olderCompression ?? true
        var heartbeat = try reader.integer("maxHeartbeat") ?? 0
        var replications = 0
        if var replicator = try reader.section("replicator") {
            heartbeat = try replicator.integer("max_heartbeat") ?? heartbeat
            replications = try replicator.integer("max_concurrent_replications") ?? 0
            try replicator.finish(ignoring: ConfigurationKeys.replicator)
        }
        heartbeatSecondsMax = heartbeat
        replicationsMax = replications
    }
}

extension GatewayConfiguration.Cluster {
    /// - Throws: The first mistake.
    fileprivate static func find(
        _ reader: inout ConfigurationReader
    ) throws(ConfigurationMistake) -> GatewayConfiguration.Cluster? {
        guard var section = try reader.section("bootstrap") else { return nil }
        guard let server = try section.string("server") else {
            throw section.mistake("server", "expected the address of the cluster")
        }
        let cluster = GatewayConfiguration.Cluster(
            server: server,
            username: try section.string("username"),
            password: try section.string("password")
        )
        try section.finish(ignoring: ConfigurationKeys.bootstrap)
        return cluster
    }
}

extension GatewayConfiguration.Extensions {
    fileprivate init(_ reader: inout ConfigurationReader) {
        facebook = reader.json("facebook")
        google = reader.json("google")
        persona = reader.json("persona")
        replications = reader.json("replications")
    }
}

/// Where a listener waits: `HOST:PORT`, or `:PORT` for all addresses of the machine.
package struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
    /// A name or an address, without the brackets of IPv6; empty for all addresses.
    package let host: String
    /// 0 for a free one.
    package let port: UInt16
    /// As written.
    package let description: String

    static let expected = "HOST:PORT or :PORT"
    static let usualPublic = ListenAddress(host: "", port: 4_984)
    static let usualAdministration = ListenAddress(host: "127.0.0.1", port: 4_985)

    private init(host: String, port: UInt16) {
        self.host = host
        self.port = port
        description = "\(host):\(port)"
    }

    /// Nil if the text has another form.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"),
            let port = UInt16(text[text.index(after: colon)...])
        else { return nil }
        let name = text[..<colon]
        let isBracketed = name.hasPrefix("[") && name.hasSuffix("]")
        let host = isBracketed ? name.dropFirst().dropLast() : name
        guard isBracketed || !host.contains(":"),
            host.utf8.allSatisfy({ $0 > UInt8(ascii: " ") && $0 < 0x7f && $0 != UInt8(ascii: "/") })
        else { return nil }
        self.host = String(host)
        self.port = port
        description = text
    }
}

/// The subjects that a gateway logs, as Sync Gateway's files, its flag `-log` and its route `_logging` name them.
///
/// `CRUD+` means `CRUD` too, with more detail; `*` means all that are not switched off.
package struct LogKeys: Hashable, Sendable {
    package private(set) var switches: [String: Bool] = [:]
    /// 1 for everything, 2 for warnings, 3 for errors.
    package var level = 1

    package init(_ keys: [String] = ["HTTP"]) { insert(keys) }

    /// Switches all keys of a list on.
    package mutating func insert(_ keys: [String]) {
        for key in keys { set(key, true) }
    }

    package mutating func set(_ key: String, _ isOn: Bool) {
        switches[key] = isOn
        if isOn { switches[String(key.prefix { $0 != "+" })] = true }
    }

    package func contains(_ key: String) -> Bool { switches[key] ?? switches["*"] ?? false }
}
