import ArgumentParser
import Foundation
import LinuxPlatform
import Seams
import Server
import Vocabulary

/// The options of the command line.
struct ServerOptions: ParsableArguments {
    @Option(help: "Data directory of this node.")
    var data = "data"

    @Option(help: "IP address to listen on.")
    var bind = "127.0.0.1"

    @Option(help: "Port for Couchbase clients; 0 chooses a free one and reuses it later.")
    var kvPort: UInt16 = 11_210

    @Option(help: "Port of the admin interface and the console; 0 as above.")
    var adminPort: UInt16 = 8_091

    @Option(help: "Port for design documents and view queries; 0 as above.")
    var viewsPort: UInt16 = 8_092

    @Option(help: "Port for the other nodes of the cluster; 0 as above.")
    var peerPort: UInt16 = 0

    @Option(
        help: """
            Port for Couchbase clients over TLS; 0 as above (default: 11207 if the KV port is 11210, else 0).
            """
    )
    var kvTlsPort: UInt16?

    @Option(help: "Port of the admin interface over TLS (default: 18091 beside 8091, else 0).")
    var adminTlsPort: UInt16?

    @Option(help: "Port for views over TLS (default: 18092 beside 8092, else 0).")
    var viewsTlsPort: UInt16?

    @Flag(name: .customLong("no-tls"), help: "Open no ports with TLS.")
    var isWithoutTLS = false

    @Option(
        name: .customLong("host-name"),
        help: ArgumentHelp(
            "Name under which clients reach this node; repeat it for several.",
            discussion: "Requests without a login need an address or a known name in Host.",
            valueName: "name"
        )
    )
    var hostNames: [String] = []

    @Option(
        help: ArgumentHelp(
            "Administrator of a new node, which then never listens without one.",
            discussion: "Ignored if the data directory has a cluster.",
            valueName: "name"
        )
    )
    var administrator: String?

    @Option(help: ArgumentHelp("File with the administrator's password.", valueName: "file"))
    var passwordFile: String?

    @Option(help: "Port for plain memcached clients, without passwords, on loopback only.")
    var memcachedPort: UInt16?

    @Option(help: "The bucket that plain memcached clients use; it may be created later.")
    var memcachedBucket: String?

    @Option(help: "Memory quota in MB, unless it was set over the admin interface.")
    var memoryQuota: UInt64?

    @Option(
        help: """
            Memory in MB for clients' requests, beyond 64 KiB for each client, and the same amount \
            for unread replies (default: a 64th of the memory, 64 to 256).
            """
    )
    var clientMemory: Int?

    @Option(help: "Number of threads that serve clients (default: one for each processor).")
    var reactors: Int?

    @Flag(
        help: """
            Run functions of views although the kernel does not filter the system calls of their \
            processes: they may then do what the node's user may.
            """
    )
    var unfilteredScripts = false

    @OptionGroup var log: LogOptions

    /// For tests of mixed releases only.
    @Option(help: ArgumentHelp("Announce and use a lower feature level.", visibility: .private))
    var testFeatureLevel: UInt16?

    func validate() throws {
        let tlsPorts = [
            ("--kv-tls-port", kvTlsPort), ("--admin-tls-port", adminTlsPort),
            ("--views-tls-port", viewsTlsPort),
        ]
        for (flag, port) in tlsPorts where port != nil && isWithoutTLS {
            throw ValidationError("\(flag) and --no-tls exclude each other")
        }
        if memcachedBucket != nil, memcachedPort == nil {
            throw ValidationError("--memcached-bucket needs --memcached-port PORT")
        }
        if memcachedPort != nil, memcachedBucket == nil {
            throw ValidationError("--memcached-port needs --memcached-bucket NAME")
        }
        if memcachedPort != nil, !SocketAddress(host: bind, port: 0).isLoopback {
            throw ValidationError(
                "--memcached-port has no login, so it needs a loopback --bind, not \(bind)"
            )
        }
        if (administrator == nil) != (passwordFile == nil) {
            throw ValidationError("--administrator and --password-file need each other")
        }
        if let name = hostNames.first(where: { !Self.isHostName($0) }) {
            throw ValidationError(
                "--host-name \(name) is not a host name; it has no port and no scheme"
            )
        }
        if let level = testFeatureLevel,
            !(FeatureLevel.lowest.number...FeatureLevel.current.number).contains(level)
        {
            throw ValidationError(
                "--test-feature-level must be \(FeatureLevel.lowest.number) to \(FeatureLevel.current.number)"
            )
        }
        if let reactors, !(1...256).contains(reactors) {
            throw ValidationError("--reactors must be 1 to 256")
        }
        if let clientMemory, !(64...1_048_576).contains(clientMemory) {
            throw ValidationError("--client-memory must be 64 MB to 1048576 MB")
        }
        if let memoryQuota,
            let flaw = NodeSettings.flaw(quotaMegabytes: memoryQuota, of: SystemMemory.total)
        {
            throw ValidationError("--memory-quota \(memoryQuota) cannot be used: \(flaw)")
        }
    }

    private static func isHostName(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                    UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// The administrator of a new node, with the password of its file; nil without these options.
    ///
    /// - Throws: `NodeError` if the file cannot be read or is not UTF-8.
    func firstAdministrator() throws(NodeError) -> (name: String, password: String)? {
        guard let administrator, let passwordFile else { return nil }
        guard let bytes = FileManager.default.contents(atPath: passwordFile) else {
            throw NodeError("The password file \(passwordFile) cannot be read.")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw NodeError("The password file \(passwordFile) is not UTF-8.")
        }
        // Editors and `echo` end a file with a line end.
        let password = text.hasSuffix("\n") ? String(text.dropLast()) : text
        return (administrator, password)
    }

    var limits: ReactorLimits {
        let bytesMax =
            clientMemory.map { $0 << 20 } ?? Limits.clientBytesMax(memory: SystemMemory.total)
        var limits = ReactorLimits()
        limits.ownInputBytes = Limits.connectionBytes
        limits.clientInputBytesMax = bytesMax
        limits.clientKeptBytesMax = bytesMax
        return limits
    }

    var settings: NodeSettings {
        var settings = NodeSettings(memoryTotal: SystemMemory.total)
        settings.directory = data
        settings.host = bind
        settings.kvPort = kvPort
        settings.adminPort = adminPort
        settings.viewsPort = viewsPort
        settings.peerPort = peerPort
        var tls = NodeSettings.TLSPorts()
        tls.kv = kvTlsPort
        tls.admin = adminTlsPort
        tls.views = viewsTlsPort
        settings.tls = isWithoutTLS ? nil : tls
        settings.memcachedPort = memcachedPort
        settings.memcachedBucket = memcachedBucket
        settings.allowsUnfilteredScripts = unfilteredScripts
        settings.memoryQuota = memoryQuota.map { $0 << 20 }
        settings.hostNames = hostNames
        if let testFeatureLevel { settings.featureLevel = FeatureLevel(testFeatureLevel) }
        return settings
    }
}

/// The options of the command line with which the program reads files, and starts no node.
struct InspectionOptions: ParsableArguments {
    @Option(help: "Print the documents of a data directory as lines of JSON, and exit.")
    var dump: String?

    @Option(
        help: ArgumentHelp(
            "Print the node, the cluster and the epoch of a data directory as JSON, and exit.",
            discussion: "A node may have the directory open.",
            valueName: "directory"
        )
    )
    var identity: String?

    @Option(
        help: ArgumentHelp(
            "Print the rows of a view's index file as lines of JSON, and exit.",
            discussion: "The first line describes the index. A node may have the file open.",
            valueName: "file"
        )
    )
    var dumpIndex: String?

    @Option(
        help: ArgumentHelp(
            "Check a view's index file, print each violation, and exit; with status 1 if there is any.",
            discussion: "A node may have the file open.",
            valueName: "file"
        )
    )
    var checkIndex: String?

    func validate() throws {
        guard [dump, identity, dumpIndex, checkIndex].compactMap(\.self).count > 1 else { return }
        throw ValidationError("Use one of --dump, --identity, --dump-index and --check-index")
    }

    /// Reads the file that an option names; false if there is no such option.
    func inspect() throws -> Bool {
        if let dump {
            try DumpCommand.write(dump)
        } else if let identity {
            try DumpCommand.writeIdentity(identity)
        } else if let dumpIndex {
            try DumpCommand.writeIndex(dumpIndex)
        } else if let checkIndex {
            try DumpCommand.checkIndex(checkIndex)
        } else {
            return false
        }
        return true
    }
}
