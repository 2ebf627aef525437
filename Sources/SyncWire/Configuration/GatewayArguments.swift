/// A mistake of the command line or of the file that it names: what is wrong and what was expected.
package struct StartMistake: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// The command line of `divan-gateway`: the flags of Sync Gateway 1.4 and three of its own.
///
/// A flag has one dash or two. Its value follows behind `=` or as the next argument; a flag that is a claim has its
/// value, if any, behind `=` only. `--` ends the flags.
package struct GatewayArguments: Equatable, Sendable {
    package enum Action: Sendable {
        case serve
        case printHelp
        case printVersion
    }

    /// The database of a gateway without a configuration file.
    struct Database: Equatable, Sendable {
        var server = "walrus:"
        var pool = "default"
        var bucket = "sync_gateway"
        /// Nil for the bucket's name.
        var name: String?
    }

    package fileprivate(set) var action = Action.serve
    /// Nil for a database in memory, which the flags describe.
    package fileprivate(set) var configurationPath: String?
    package fileprivate(set) var logPath: String?
    /// Nil for the default.
    package fileprivate(set) var memoryQuotaBytes: UInt64?
    /// Whether the gateway serves although the kernel does not confine it.
    package fileprivate(set) var isUnconfined = false
    fileprivate(set) var publicAddress: ListenAddress?
    fileprivate(set) var adminAddress: ListenAddress?
    fileprivate(set) var database = Database()
    fileprivate(set) var logKeys: [String] = []
    fileprivate(set) var isVerbose = false
    fileprivate(set) var isPretty = false
    /// The flags as written, without dashes, in their order.
    fileprivate(set) var flags: [String] = []

    /// Parses the arguments behind the program's name.
    ///
    /// - Throws: The first mistake.
    package init(_ arguments: some Sequence<String>) throws(StartMistake) {
        var rest = Array(arguments)[...]
        var areFlagsOver = false
        while let argument = rest.popFirst() {
            if areFlagsOver || !argument.hasPrefix("-") || argument == "-" {
                try setPath(argument)
            } else if argument == "--" {
                areFlagsOver = true
            } else {
                try setFlag(argument, &rest)
            }
        }
    }

    /// - Throws: There is a path already.
    private mutating func setPath(_ argument: String) throws(StartMistake) {
        guard configurationPath == nil else {
            throw StartMistake(
                "\(argument): expected one configuration file; put all databases into it"
            )
        }
        configurationPath = argument
    }

    /// - Throws: The flag is unknown, has no value, or a value of another form.
    private mutating func setFlag(
        _ argument: String,
        _ rest: inout ArraySlice<String>
    ) throws(StartMistake) {
        let text = argument.dropFirst(argument.hasPrefix("--") ? 2 : 1)
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(parts[0])
        let inlined = parts.count > 1 ? String(parts[1]) : nil
        guard let flag = GatewayFlag.all.first(where: { $0.names.contains(name) }) else {
            throw StartMistake("-\(name) is unknown; divan-gateway -help lists the flags")
        }
        flags.append(name)
        switch flag.use {
        case .claim(let set):
            guard let isSet = GatewayFlag.claim(inlined ?? "true") else {
                throw StartMistake("-\(name): expected true or false, found \"\(inlined ?? "")\"")
            }
            set(&self, isSet)
        case .value(let expected, let set):
            guard let value = inlined ?? rest.popFirst() else {
                throw StartMistake("-\(name): expected \(expected)")
            }
            guard set(&self, value) else {
                throw StartMistake("-\(name): expected \(expected), found \"\(value)\"")
            }
        case .refused(let reason): throw StartMistake("-\(name): \(reason)")
        }
    }
}

/// A flag of the command line.
private struct GatewayFlag: Sendable {
    enum Use: Sendable {
        case claim(@Sendable (inout GatewayArguments, Bool) -> Void)
        /// With the form of a value; the setter returns whether the value has it.
        case value(String, @Sendable (inout GatewayArguments, String) -> Bool)
        case refused(String)

        /// A text that is not empty.
        static func text(
            _ expected: String,
            _ path: any WritableKeyPath<GatewayArguments, String> & Sendable
        ) -> Use {
            .value(expected) { arguments, value in
                arguments[keyPath: path] = value
                return !value.isEmpty
            }
        }

        static func address(
            _ path: any WritableKeyPath<GatewayArguments, ListenAddress?> & Sendable
        ) -> Use {
            .value(ListenAddress.expected) { arguments, value in
                arguments[keyPath: path] = ListenAddress(value)
                return arguments[keyPath: path] != nil
            }
        }
    }

    let names: [String]
    let help: String
    let use: Use

    init(_ names: String..., help: String, _ use: Use) {
        self.names = names
        self.help = help
        self.use = use
    }

    /// As Go parses a Boolean; nil for another text.
    static func claim(_ text: String) -> Bool? {
        switch text {
        case "1", "t", "T", "true", "TRUE", "True": true
        case "0", "f", "F", "false", "FALSE", "False": false
        default: nil
        }
    }

    /// Bytes: digits, and a unit of 1 024; nil for another text, or a number beyond any machine.
    static func bytes(_ text: String) -> UInt64? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let shifts: [Substring: UInt64] = ["": 0, "K": 10, "M": 20, "G": 30, "T": 40]
        guard let count = UInt64(digits), let shift = shifts[text.dropFirst(digits.count)],
            count > 0, count <= UInt64(1) << (50 - shift)
        else { return nil }
        return count << shift
    }

    static let all = [
        GatewayFlag(
            "interface",
            help: "address of the public port (:4984)",
            .address(\.publicAddress)
        ),
        GatewayFlag(
            "adminInterface",
            help: "address of the administration port (127.0.0.1:4985)",
            .address(\.adminAddress)
        ),
        GatewayFlag(
            "url",
            help: "server of the database, only without a FILE (walrus:, which is memory)",
            .text("walrus:", \.database.server)
        ),
        GatewayFlag(
            "pool",
            help: "pool of the server, only without a FILE (default)",
            .text("a name", \.database.pool)
        ),
        GatewayFlag(
            "bucket",
            help: "bucket of the database, only without a FILE (sync_gateway)",
            .text("a name", \.database.bucket)
        ),
        GatewayFlag(
            "dbname",
            help: "name of the database, only without a FILE (the bucket's)",
            .value("a name of a-z, 0-9 and _$()+-/") { arguments, value in
                arguments.database.name = value
                return DatabaseConfiguration.isName(value)
            }
        ),
        GatewayFlag(
            "log",
            help:
                "subjects to log beside the file's, with commas between: HTTP,CRUD+,Changes+ or *",
            .value("subjects with commas between") { arguments, value in
                arguments.logKeys += value.split(separator: ",").map(String.init)
                return true
            }
        ),
        GatewayFlag(
            "logFilePath",
            help: "file that the log is appended to (standard error)",
            .value("a path") { arguments, value in
                arguments.logPath = value
                return !value.isEmpty
            }
        ),
        GatewayFlag("verbose", help: "switch the subject HTTP+ on", .claim { $0.isVerbose = $1 }),
        GatewayFlag(
            "pretty",
            help: "answer JSON with line ends and blanks",
            .claim { $0.isPretty = $1 }
        ),
        GatewayFlag(
            "memory-quota",
            help: "memory of the databases, for example 512M (1G)",
            .value("a number of bytes, with K, M, G or T") { arguments, value in
                arguments.memoryQuotaBytes = bytes(value)
                return arguments.memoryQuotaBytes != nil
            }
        ),
        GatewayFlag(
            "unconfined",
            help: "serve although the kernel does not confine this process",
            .claim { $0.isUnconfined = $1 }
        ),
        GatewayFlag(
            "version",
            help: "print the version, and end",
            .claim { if $1 { $0.action = .printVersion } }
        ),
        GatewayFlag(
            "help",
            "h",
            help: "print this text, and end",
            .claim { if $1 { $0.action = .printHelp } }
        ),
        GatewayFlag("deploymentID", help: "no effect", .value("a name") { _, _ in true }),
        GatewayFlag("profileInterface", help: "no effect", .value("an address") { _, _ in true }),
        GatewayFlag("skipRunModeValidation", help: "no effect", .claim { _, _ in }),
        GatewayFlag(
            "configServer",
            help: "refused: databases come from FILE, or by PUT /db/ on the administration port",
            .refused("databases come from the file, or by PUT /db/ on the administration port")
        ),
    ]
}

extension GatewayArguments {
    /// Flags of Sync Gateway that have no counterpart here.
    static let withoutEffect: Set<String> = [
        "deploymentID", "profileInterface", "skipRunModeValidation",
    ]
    /// Flags that describe the database of a gateway without a file.
    static let ofDatabase: Set<String> = ["url", "pool", "bucket", "dbname"]

    /// The text of `-help`.
    package static var help: String {
        let lines = GatewayFlag.all.map { flag in
            let names = flag.names.map { "-\($0)" }.joined(separator: ", ")
            return
                "  \(names)\(String(repeating: " ", count: max(1, 25 - names.count)))\(flag.help)"
        }
        return """
            usage: divan-gateway [FLAG ...] [FILE]
            Serves the databases of FILE, a configuration of Sync Gateway 1.x to 3.x, to devices. Without FILE:
            a database in memory that the guest may read and write, on the loopback address.
            Flags have one dash or two, and their values follow as an argument or behind "=". They override FILE.

            """ + lines.joined(separator: "\n") + "\n"
    }
}
