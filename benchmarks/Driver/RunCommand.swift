internal import ArgumentParser
internal import Seams

/// `divan-bench run`: one workload against one server.
struct RunCommand: LoadCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Run one workload against one server.",
        discussion: """
            The workload is a file of benchmarks/workloads, or another of the same form. Progress \
            goes to standard error, a table to standard output. A bucket on several nodes is loaded \
            through the client library, which follows the map as an application would; a single \
            server by the driver's own connections, with requests rendered ahead of time.
            """
    )

    @Argument(help: "Workload file.")
    var workload: String

    @Option(name: .customLong("protocol"), help: "couchbase, memcached or redis.")
    var dialect = Dialect.couchbase

    @Option(help: "IP address of the server.")
    var host = "127.0.0.1"

    @Option(
        help: """
            Port of the server (11210 for couchbase and 11207 with TLS, 11211 for memcached, 6379 for \
            redis).
            """
    )
    var port: UInt16?

    @OptionGroup var tls: TLSOptions

    @OptionGroup var account: AccountOptions

    @Option(help: "Instead of the workload's: connections.")
    var connections: Int?

    @Option(help: "Instead of the workload's: requests in flight on each connection.")
    var depth: Int?

    @Option(help: "Instead of the workload's: number of keys.")
    var keys: Int?

    @Option(help: "Instead of the workload's: requests a second, 0 for a closed loop.")
    var rate: Double?

    @Option(help: "Instead of the workload's: seconds to measure; 0 to load only.")
    var seconds: Double?

    @Option(help: "Instead of the workload's: seconds before measuring.")
    var warmUp: Double?

    @Flag(inversion: .prefixedNo, help: "Store all documents first, or not.")
    var preload: Bool?

    @Flag(inversion: .prefixedNo, help: "Measure how long changes stay unpersisted, or not.")
    var samplePersistence: Bool?

    @Flag(
        inversion: .prefixedNo,
        help: """
            Use the client library, or not (default: if the bucket is on several nodes), with \
            connections x depth operations in flight.
            """
    )
    var client: Bool?

    @Option(help: "Process of the server, to report its CPU time; may be given several times.")
    var serverPid: [Int32] = []

    @Flag(help: "Use a server that only answers, to measure the limit of the driver.")
    var null = false

    @Option(help: "Core of the answering server of --null.")
    var nullCore: Int?

    @OptionGroup var result: ResultOptions

    func test() throws(BenchError) {
        let workload = try settings()
        var target = LoadTest.Target(
            address: SocketAddress(host: host, port: port ?? standardPort),
            dialect: dialect,
            account: Login.Account(
                user: account.user,
                password: account.secret,
                bucket: account.bucket
            ),
            serverPIDs: serverPid,
            usesClient: client
        )
        target.trust = try tls.trust()
        var server: NullServer?
        if null {
            let started = try NullServer(core: nullCore, valueBytes: workload.valueBytes)
            target.address = SocketAddress(host: "127.0.0.1", port: started.port)
            target.dialect = .memcached
            target.usesClient = nil
            target.trust = nil
            target.serverPIDs = [started.pid]
            server = started
        }
        defer { server?.stop() }
        let progress = ProgressLine(isQuiet: result.quiet)
        let test = LoadTest(workload: workload, target: target, progress: progress)
        let outcome = try test.run()
        try result.write(Report.table(outcome), json: Report.json(outcome))
    }

    private var standardPort: UInt16 {
        switch dialect {
        case .couchbase: tls.cacert == nil ? 11_210 : 11_207
        case .memcached: 11_211
        case .redis: 6_379
        }
    }

    /// The workload with the overrides of the command line.
    private func settings() throws(BenchError) -> Workload {
        var settings = try Workload(file: workload)
        settings.connections = connections ?? settings.connections
        settings.depth = depth ?? settings.depth
        settings.keys = keys ?? settings.keys
        settings.rate = rate ?? settings.rate
        settings.seconds = seconds ?? settings.seconds
        settings.warmUpSeconds = warmUp ?? settings.warmUpSeconds
        settings.preloads = preload ?? settings.preloads
        settings.samplesPersistence = samplePersistence ?? settings.samplesPersistence
        if settings.samplesPersistence && dialect != .couchbase {
            throw BenchError("only the couchbase protocol reports persistence")
        }
        if client == true && dialect != .couchbase {
            throw BenchError("the client library speaks the couchbase protocol only")
        }
        try settings.validate()
        return settings
    }
}
