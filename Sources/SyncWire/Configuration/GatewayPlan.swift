package import Bytes
internal import JSON

/// The start plan of `divan-gateway`: a configuration file with the flags that override it, checked for
/// features that this release does not serve.
package struct GatewayPlan: Equatable, Sendable {
    package let configuration: GatewayConfiguration
    package let listeners: Listeners
    /// The lists of the file and of the command line that are not empty, in this order.
    package let logKeyLists: [[String]]
    package let logKeys: LogKeys
    /// The file that the log is appended to; nil for standard error.
    package let logPath: String?
    /// Sentences about what has no effect, for the log.
    package let notices: [String]

    package struct Listeners: Equatable, Sendable {
        package let publicAddress: ListenAddress
        package let adminAddress: ListenAddress
        package let metricsAddress: ListenAddress?
    }

    /// Makes the plan of a command line and its file.
    ///
    /// - Parameters:
    ///   - arguments: The command line.
    ///   - file: The content of its file; nil if it names none.
    /// - Throws: The first mistake, with the file, the line and the column, or what this release does not serve.
    package init(_ arguments: GatewayArguments, file: ByteView?) throws(StartMistake) {
        let path = arguments.configurationPath ?? "command line"
        var configuration: GatewayConfiguration
        do throws(ConfigurationMistake) {
            if let file {
                configuration = try GatewayConfiguration(file)
            } else {
                configuration = try GatewayConfiguration(ofFlags: arguments.database)
            }
            for database in configuration.databases { try database.store.requireMemory() }
        } catch {
            throw StartMistake(file == nil ? error.ofFlags : "\(path):\(error.text)")
        }
        if arguments.isPretty { configuration.http.isPretty = true }
        listeners = Listeners(
            publicAddress: arguments.publicAddress ?? configuration.listeners.publicInterface,
            adminAddress: arguments.adminAddress ?? configuration.listeners.adminInterface,
            metricsAddress: configuration.listeners.metricsInterface
        )
        logKeyLists = [configuration.log.keys, arguments.logKeys].filter { !$0.isEmpty }
        var keys = LogKeys()
        for list in logKeyLists { keys.insert(list) }
        if arguments.isVerbose { keys.insert(["HTTP+"]) }
        logKeys = keys
        // From 2.0 on the file names a directory.
        let isFile = configuration.dialect == .first
        logPath = arguments.logPath ?? (isFile ? configuration.log.path : nil)
        notices =
            arguments.notices + configuration.notices.map { "\(path):\($0.text)" }
            + configuration.unservedKeys.map { "\(path): \($0) has no effect in this release" }
        self.configuration = configuration
    }
}

extension GatewayConfiguration {
    /// The configuration of a database that the guest may read and write, on the loopback address.
    ///
    /// - Throws: A mistake of a flag, with a position that says nothing.
    fileprivate init(ofFlags database: GatewayArguments.Database) throws(ConfigurationMistake) {
        let text = JSONWriter.text { file in
            file.object { file in
                file.member("compatibility", GatewayDialect.first.rawValue)
                file.member("interface", "localhost:4984")
                file.object("databases") { databases in
                    databases.object(database.name ?? database.bucket) { member in
                        member.member("server", database.server)
                        member.member("pool", database.pool)
                        member.member("bucket", database.bucket)
                        member.object("users") { users in
                            users.object(PrincipalConfiguration.guestName) { guest in
                                guest.member("disabled", false)
                                guest.array("admin_channels") { $0.value("*") }
                            }
                        }
                    }
                }
            }
        }
        try self.init(copying: text)
    }

    /// - Throws: The first mistake.
    private init(copying text: [UInt8]) throws(ConfigurationMistake) {
        let output = ByteWriter(capacity: text.count)
        output.append(text)
        self = try output.withView { (text) throws(ConfigurationMistake) in try Self(text) }
    }

    /// Keys that later releases serve; until then their routes answer 501.
    fileprivate var unservedKeys: [String] {
        let ofFile = [
            ("facebook", extensions.facebook), ("google", extensions.google),
            ("persona", extensions.persona), ("replications", extensions.replications),
            ("logging.log_file_path", dialect == .third ? log.path.map { Array($0.utf8) } : nil),
        ]
        let ofDatabases = databases.flatMap { database in
            [
                ("databases.\(database.name).oidc", database.extensions.oidc),
                ("databases.\(database.name).event_handlers", database.extensions.eventHandlers),
            ]
        }
        return (ofFile + ofDatabases).filter { $0.1 != nil }.map(\.0)
    }
}

extension DatabaseConfiguration.Store {
    /// Checks that the documents are in memory, which is what this release serves.
    ///
    /// - Throws: They are elsewhere.
    fileprivate func requireMemory() throws(ConfigurationMistake) {
        let reason: String
        switch kind {
        case .memory(directory: nil): return
        case .memory(directory: let directory?):
            reason = "saving to \(directory) is not supported yet"
        case .cluster(server: let address?):
            reason = "a bucket of the cluster \(address) is not supported yet"
        case .cluster(server: nil): reason = "a bucket of the cluster is not supported yet"
        }
        throw ConfigurationMistake(
            position: place.position,
            path: place.path,
            reason: "\(reason): expected \"walrus:\", which keeps the documents in memory"
        )
    }
}

extension ConfigurationNotice {
    /// `3:14: databases.demo.feed_type has no effect here`.
    fileprivate var text: String {
        let start = "\(position.line):\(position.column): \(path)"
        switch kind {
        case .withoutEffect: return "\(start) has no effect here"
        case .unknown: return "\(start) is unknown and has no effect; correct or remove it"
        }
    }
}

extension ConfigurationMistake {
    /// The mistake of a flag that describes the database.
    fileprivate var ofFlags: String {
        path.hasSuffix(".server") ? "-url: \(reason)" : "-bucket, -dbname: \(reason)"
    }
}

extension GatewayArguments {
    /// Sentences about the flags that have no effect.
    fileprivate var notices: [String] {
        flags.compactMap { flag in
            if GatewayArguments.withoutEffect.contains(flag) {
                return "-\(flag) has no effect here"
            }
            guard configurationPath != nil, GatewayArguments.ofDatabase.contains(flag) else {
                return nil
            }
            return "-\(flag) has no effect beside a configuration file"
        }
    }
}
