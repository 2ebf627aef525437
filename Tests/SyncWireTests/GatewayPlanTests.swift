import Bytes
import SyncWire
import Testing

@Suite struct GatewayPlanTests {
    private func plan(_ arguments: [String], _ file: String? = nil) throws -> GatewayPlan {
        let arguments = try GatewayArguments(arguments)
        guard let file else { return try GatewayPlan(arguments, file: nil) }
        return try view(file) { try GatewayPlan(arguments, file: $0) }
    }

    private func mistake(_ arguments: [String], _ file: String? = nil) -> String? {
        do {
            _ = try plan(arguments, file)
            return nil
        } catch {
            return (error as? StartMistake)?.description
        }
    }

    private static let file = #"""
        {
          "interface": ":4984", "adminInterface": "0.0.0.0:4985", "log": ["CRUD+"],
          "databases": {
            "demo": { "server": "walrus:", "users": { "GUEST": { "admin_channels": ["*"] } } }
          }
        }
        """#

    // MARK: The command line

    @Test(arguments: [
        ["-interface", "1.2.3.4:1", "f"], ["--interface", "1.2.3.4:1", "f"],
        ["-interface=1.2.3.4:1", "f"], ["--interface=1.2.3.4:1", "f"],
        ["f", "-interface", "1.2.3.4:1"], ["-interface", ":7", "-interface", "1.2.3.4:1", "f"],
        ["-interface=1.2.3.4:1", "--", "f"],
    ])
    func flagHasOneDashOrTwoAndItsValueBehindEither(arguments: [String]) throws {
        let plan = try plan(arguments, Self.file)
        #expect(plan.listeners.publicAddress.description == "1.2.3.4:1")
        #expect(plan.listeners.adminAddress.description == "0.0.0.0:4985")
    }

    @Test(arguments: [
        (["-pretty"], true), (["-pretty=true"], true), (["--pretty=1"], true),
        (["-pretty", "-pretty=false"], false), (["-pretty=F"], false), ([], false),
    ])
    func claimHasItsValueBehindTheSignOnly(arguments: [String], isPretty: Bool) throws {
        #expect(try plan(arguments + ["f"], Self.file).configuration.http.isPretty == isPretty)
    }

    @Test(arguments: [
        (["-interfce", ":1"], "-interfce is unknown; divan-gateway -help lists the flags"),
        (["-interface"], "-interface: expected HOST:PORT or :PORT"),
        (["-interface", "4984"], "-interface: expected HOST:PORT or :PORT, found \"4984\""),
        (
            ["-interface=[::1]:99999"],
            "-interface: expected HOST:PORT or :PORT, found \"[::1]:99999\""
        ),
        (
            ["-adminInterface=::1:5"],
            "-adminInterface: expected HOST:PORT or :PORT, found \"::1:5\""
        ),
        (["-pretty=maybe"], "-pretty: expected true or false, found \"maybe\""),
        (
            ["-configServer", "http://x"],
            "-configServer: databases come from the file, or by PUT /db/ on the administration port"
        ),
        (["a", "b"], "b: expected one configuration file; put all databases into it"),
        (["-dbname", "Demo"], "-dbname: expected a name of a-z, 0-9 and _$()+-/, found \"Demo\""),
        (
            ["--memory-quota", "12X"],
            "-memory-quota: expected a number of bytes, with K, M, G or T, found \"12X\""
        ),
        (
            ["--memory-quota", "9999999T"],
            "-memory-quota: expected a number of bytes, with K, M, G or T, found \"9999999T\""
        ),
        (
            ["-bucket", "Demo"],
            "-bucket, -dbname: expected a database name of a-z, 0-9 and _$()+-/"
        ),
        (
            ["-url", "http://localhost:8091"],
            "-url: a bucket of the cluster http://localhost:8091 is not supported yet: expected "
                + "\"walrus:\", which keeps the documents in memory"
        ),
        (
            ["-url", "walrus:data"],
            "-url: saving to data is not supported yet: expected \"walrus:\", which keeps the "
                + "documents in memory"
        ),
    ])
    func mistakeOfTheCommandLineNamesTheFlag(arguments: [String], text: String) {
        #expect(mistake(arguments) == text)
    }

    @Test(arguments: [
        ("1", 1), ("512M", 512 << 20), ("2G", 2 << 30), ("64K", 64 << 10), ("1T", 1 << 40),
    ])
    func memoryQuotaHasAUnit(text: String, bytes: UInt64) throws {
        #expect(try GatewayArguments(["--memory-quota", text]).memoryQuotaBytes == bytes)
    }

    @Test func actionIsThatOfTheLastFlag() throws {
        #expect(try GatewayArguments([]).action == .serve)
        #expect(try GatewayArguments(["-help"]).action == .printHelp)
        #expect(try GatewayArguments(["--help", "f"]).action == .printHelp)
        #expect(try GatewayArguments(["-h"]).action == .printHelp)
        #expect(try GatewayArguments(["--version"]).action == .printVersion)
    }

    @Test func helpNamesEveryFlagInLinesThatFitATerminal() {
        let help = GatewayArguments.help
        for flag in ["-interface", "-adminInterface", "-log", "-memory-quota", "-unconfined"] {
            #expect(help.contains("  \(flag) "), "\(flag)")
        }
        #expect(help.split(separator: "\n").allSatisfy { $0.count <= 110 })
    }

    // MARK: Without a file

    @Test func gatewayWithoutAFileServesTheGuestOnLoopback() throws {
        let plan = try plan(["-bucket", "demo", "-pool", "p", "-log", "HTTP+,CRUD"])
        #expect(plan.listeners.publicAddress.host == "localhost")
        #expect(plan.listeners.publicAddress.port == 4_984)
        #expect(plan.listeners.adminAddress.description == "127.0.0.1:4985")
        let database = try #require(plan.configuration.databases.first)
        #expect(database.name == "demo" && database.dialect == .first)
        #expect(database.store.pool == "p" && database.store.bucket == "demo")
        #expect(database.store.server == "walrus:")
        #expect(database.principals.users.map(\.name) == ["GUEST"])
        #expect(database.principals.users[0].channels == ["*"])
        #expect(plan.logKeyLists == [["HTTP+", "CRUD"]])
        #expect(plan.notices.isEmpty)
    }

    @Test func nameOfTheDatabaseMayDifferFromItsBucket() throws {
        let plan = try plan(["-bucket", "Stuff", "-dbname", "stuff"])
        let database = try #require(plan.configuration.databases.first)
        #expect(database.name == "stuff" && database.store.bucket == "Stuff")
    }

    // MARK: With a file

    @Test func flagsOverrideTheFileAndAddToItsLog() throws {
        let arguments = ["-adminInterface", "[::1]:5", "-log", "HTTP+,bw", "-verbose", "f"]
        let plan = try plan(arguments, Self.file)
        #expect(plan.listeners.publicAddress.host.isEmpty)
        #expect(plan.listeners.adminAddress.host == "::1")
        #expect(plan.logKeyLists == [["CRUD+"], ["HTTP+", "bw"]])
        for key in ["CRUD+", "CRUD", "HTTP", "HTTP+"] { #expect(plan.logKeys.contains(key)) }
        #expect(!plan.logKeys.contains("Changes"))
    }

    @Test func starEnablesAllSubjects() throws {
        let file = "{\"databases\": {}}"
        for subject in ["Changes", "Changes+", "CRUD", "HTTP+", "Access", "a later subject"] {
            #expect(try plan(["-log=*", "f"], file).logKeys.contains(subject), "\(subject)")
            #expect(try !plan(["-log=bw", "f"], file).logKeys.contains(subject), "\(subject)")
        }
    }

    @Test func logFileOfTheCommandLineComesBeforeThatOfTheFile() throws {
        let file = #"{"log": [], "logging": {"default": {"logFilePath": "a.log"}}}"#
        #expect(try plan(["f"], file).logPath == "a.log")
        #expect(try plan(["-logFilePath", "b.log", "f"], file).logPath == "b.log")
        let current = #"{"logging": {"log_file_path": "/var/log"}}"#
        #expect(try plan(["f"], current).logPath == nil)
        #expect(
            try plan(["f"], current).notices
                == ["f: logging.log_file_path has no effect in this release"]
        )
    }

    @Test func flagsWithoutEffectAreNamed() throws {
        let plan = try plan(["-deploymentID", "x", "-bucket", "b", "f"], Self.file)
        #expect(
            plan.notices == [
                "-deploymentID has no effect here",
                "-bucket has no effect beside a configuration file",
            ]
        )
    }

    @Test func keysWithoutEffectAreNamedWithTheirPlaces() throws {
        let file = #"""
            { "log": [], "facebook": {"register": true}, "slowServerCallWarningThreshold": 3,
              "databases": {
                "a": { "server": "walrus:", "feed_type": "DCP", "snyc": "x", "oidc": {} } } }
            """#
        #expect(
            try plan(["a.json"], file).notices == [
                "a.json:1:46: slowServerCallWarningThreshold has no effect here",
                "a.json:3:33: databases.a.feed_type has no effect here",
                "a.json:3:53: databases.a.snyc is unknown and has no effect; correct or remove it",
                "a.json: facebook has no effect in this release",
                "a.json: databases.a.oidc has no effect in this release",
            ]
        )
    }

    @Test(arguments: [
        ("{\"databases\": []}", "f:1:15: databases: expected an object, found an array"),
        ("{\"interface\": \"x\"}", "f:1:15: interface: expected HOST:PORT or :PORT, found \"x\""),
        (
            "{\"log\": [],\n\"databases\": {\"d\": {\"server\": \"http://h:8091\"}}}",
            "f:2:31: databases.d.server: a bucket of the cluster http://h:8091 is not supported yet: "
                + "expected \"walrus:\", which keeps the documents in memory"
        ),
        (
            "{\"databases\": {\"d\": {}}}",
            "f:1:21: databases.d.server: a bucket of the cluster is not supported yet: expected "
                + "\"walrus:\", which keeps the documents in memory"
        ),
    ])
    func mistakeOfAFileHasItsPlace(file: String, text: String) {
        #expect(mistake(["f"], file) == text)
    }
}
