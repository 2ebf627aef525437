import Bytes
import SyncWire
import Testing

@Suite struct ConfigurationTests {
    private func parse(_ text: String) throws -> GatewayConfiguration {
        try view(text) { try GatewayConfiguration($0) }
    }

    private func mistake(_ text: String) -> String? {
        do {
            _ = try parse(text)
            return nil
        } catch {
            return (error as? ConfigurationMistake)?.text
        }
    }

    /// A file in the form of 1.0, with a bucket of a cluster and a function in back-quotes.
    private static let bucketFile = #"""
        {
        "interface":":4984",
        "adminInterface":"0.0.0.0:4985",
        "log": ["CRUD+", "REST+", "Changes+", "Attach+"],
        "databases":{
        "demo":{
        "bucket":"demo",
        "server":"http://localhost:8091",
        "users": {
        "GUEST": {"disabled": false, "admin_channels": ["*"]}
        },
        "sync":`function(doc) {channel(doc.channels);}`
        }
        }
        }
        """#

    /// A file in memory with users, and a function of several lines with quotes, tabs and backslashes.
    private static let memoryFile = #"""
        {
          "interface":":4984", "adminInterface":"127.0.0.1:4985", "log": ["*"], "CORS": { "Origin":["*"] },
          "databases": {
            "demo": {
              "server": "walrus:", "bucket": "default",
              "users": {
                "GUEST": { "disabled": true, "admin_channels": ["*"] }
                , "joe": {"password":"password" ,"disabled": false, "admin_channels":["_public","_joe"]}
                , "jane":{"password":"password" ,"disabled": false, "admin_channels":["_public","_jane"]}
              },
              "unsupported": { "user_views": { "enabled":true } },
              "sync": `
        function (doc, oldDoc){
        	// Tabs, "quotes" and \\ stay.
          if (/\d+/.test(doc.x)) { throw({forbidden: "no"}); }
        }
        `
            }
          }
        }
        """#

    @Test func fileWithBucketIsOfTheDialectOfOnePointFour() throws {
        let file = try parse(Self.bucketFile)
        #expect(file.dialect == .first)
        #expect(file.listeners.publicInterface.description == ":4984")
        #expect(file.listeners.adminInterface.description == "0.0.0.0:4985")
        #expect(file.log.keys == ["CRUD+", "REST+", "Changes+", "Attach+"])
        #expect(file.notices.isEmpty)
        let database = try #require(file.databases.first)
        #expect(database.name == "demo")
        #expect(database.store.kind == .cluster(server: "http://localhost:8091"))
        #expect(database.store.pool == "default")
        #expect(database.syncFunction == "function(doc) {channel(doc.channels);}")
        #expect(database.revisions.limit == 1_000)
        #expect(database.principals.users.map(\.name) == ["GUEST"])
        #expect(database.principals.users[0].channels == ["*"])
        #expect(!database.principals.users[0].isDisabled)
    }

    @Test func fileInMemoryHasUsersAndFunction() throws {
        let file = try parse(Self.memoryFile)
        #expect(file.cors?.origins == ["*"])
        let database = try #require(file.databases.first)
        #expect(database.store.kind == .memory(directory: nil))
        #expect(database.store.bucket == "default")
        #expect(database.features.hasUserViews)
        #expect(database.principals.users.map(\.name) == ["GUEST", "joe", "jane"])
        #expect(database.principals.users[2].password == "password")
        #expect(
            database.syncFunction
                == "\nfunction (doc, oldDoc){\n\t// Tabs, \"quotes\" and \\\\ stay.\n"
                + "  if (/\\d+/.test(doc.x)) { throw({forbidden: \"no\"}); }\n}\n"
        )
    }

    @Test func carriageReturnsOfFunctionsAreDropped() throws {
        let file = try parse("{\"log\":[],\"databases\":{\"d\":{\"sync\":`a\r\nb`}}}")
        #expect(file.databases[0].syncFunction == "a\nb")
    }

    /// An empty pair of back-quotes is none, and a back-quote behind a backslash does not end a function.
    @Test(arguments: [
        ("`x`", "x"), (#"`a\`b`"#, #"a\`b"#), ("``x`", "`x"), ("`\\\\n`", "\\\\n"),
    ]) func backQuotesAreReplaced(quoted: String, function: String) throws {
        let file = try parse("{\"databases\":{\"d\":{\"server\":\"walrus:\",\"sync\":\(quoted)}}}")
        #expect(file.databases[0].syncFunction == function)
        #expect(file.dialect == .first)
    }

    @Test(arguments: [
        ("", "1:1: expected a value"), ("{", "1:2: expected a key in quotes"),
        ("{\n  \"interface\": x}", "2:16: expected a value"),
        ("{\"log\":[\"a\"\n\"b\"]}", "2:1: expected ',' or ']'"),
        ("{\"a\":1\n \"b\":2}", "2:2: expected ',' or '}'"),
        ("{\"a\" 1}", "1:6: expected ':' after a key"),
        ("{\"a\":\"x}", "1:6: expected a quote that ends the string"),
        ("{} {}", "1:4: expected the end of the file"),
        ("{\"a\":1e999}", "1:6: expected a smaller number"),
        ("[]", "1:1: expected an object, found an array"),
        ("{\"interface\":\n 4984}", "2:2: interface: expected a string, found a number"),
        ("{\"öä\":0,\"databases\":[]}", "1:21: databases: expected an object, found an array"),
        ("{\"SSLCert\":\"a\"}", "1:12: SSLCert: expected both a certificate and a key"),
        (
            "{\"databases\":{\"D\":{}}}",
            "1:19: databases.D: expected a database name of a-z, 0-9 and _$()+-/"
        ),
        (
            "{\"databases\":{\"d\":{\"users\":{\"a:b\":{}}}}}",
            "1:35: databases.d.users.a:b: expected a name of letters, digits and -+.@%_"
        ),
        (
            "{\"databases\":{\"d\":{\"revs_limit\":0}}}",
            "1:33: databases.d.revs_limit: expected a whole number from 1 to 2147483647, found a number"
        ),
        (
            "{\"databases\":{\"d\":{\"server\":\"ftp:\"}}}",
            "1:29: databases.d.server: expected walrus:, http://HOST:8091 or couchbase://HOST"
        ),
        (
            "{\"databases\":{\"d\":{\"import_docs\":1}}}",
            "1:34: databases.d.import_docs: expected true, false or \"continuous\""
        ),
        ("{\"compatibility\":\"x\"}", "1:18: compatibility: expected \"1.4\" or \"3\""),
        ("{\"bootstrap\":{}}", "1:14: bootstrap.server: expected the address of the cluster"),
    ]) func mistakesHavePositionAndExpectation(text: String, expected: String) {
        #expect(mistake(text) == expected)
    }

    /// The position is that of the file, not of the text whose back-quotes are replaced.
    @Test func mistakeBehindAFunctionHasItsLineInTheFile() {
        let text =
            "{\"databases\":{\"d\":{\"sync\":`\nfunction() {\n\t\"\\\"\n}\n`, \"offline\": 1,\n\"x\":0}}}"
        #expect(
            mistake(text) == "5:15: databases.d.offline: expected true or false, found a number"
        )
        let broken = "{\"databases\":{\"d\":{\"sync\":`\na\n`\n \"offline\":true}}}"
        #expect(mistake(broken) == "4:2: expected ',' or '}'")
    }

    @Test func unknownKeysAreNoticesInOnePointFourOnly() throws {
        let text =
            #"{"log":[],"colour":1,"slowServerCallWarningThreshold":5,"databases":{"d":{"feed_type":"DCP","#
            + #""revs_limt":1,"users":{"a":{"x":1}},"cache":{"max_wait_pending":5,"y":1}}}}"#
        let notices = try parse(text).notices
        #expect(
            notices.map { "\($0.position.column) \($0.path) \($0.kind)" } == [
                "11 colour unknown", "22 slowServerCallWarningThreshold withoutEffect",
                "75 databases.d.feed_type withoutEffect", "93 databases.d.revs_limt unknown",
                "121 databases.d.users.a.x unknown",
                "138 databases.d.cache.max_wait_pending withoutEffect",
                "159 databases.d.cache.y unknown",
            ]
        )
        #expect(
            mistake("{\"databases\":{\"d\":{\"feed_type\":\"DCP\",\n\"revs_limt\":1}}}")
                == "2:1: databases.d.revs_limt: this key is unknown; remove or correct it"
        )
    }

    @Test func shadowIsRefusedInBothDialects() {
        let reason =
            "bucket shadowing is replaced by import; remove this key and set \"import_docs\": true"
        for log in ["\"log\":[],", ""] {
            let text = "{\(log)\"databases\":{\"d\":{\"shadow\":{}}}}"
            #expect(mistake(text)?.hasSuffix("databases.d.shadow: " + reason) == true)
        }
    }

    @Test(
        arguments: [
            ("{}", .third), ("{\"LOG\":[]}", .first),
            ("{\"log\":[],\"compatibility\":\"3.1\"}", .third),
            ("{\"compatibility\":\"1.5\"}", .first),
            ("{\"logging\":{\"console\":{\"log_keys\":[\"*\"]}}}", .third),
        ] as [(String, GatewayDialect)]
    ) func dialectFollowsKeysAndCompatibility(
        text: String,
        expected: GatewayDialect
    ) throws {
        #expect(try parse(text).dialect == expected)
    }

    @Test func keysAreComparedWithoutCaseAndTheLastCounts() throws {
        let file = try parse(
            #"{"LOG":["a"],"INTERFACE":":1","interface":":2","Databases":{"a":{},"a":{"BUCKET":"b"}}}"#
        )
        #expect(file.listeners.publicInterface.description == ":2")
        #expect(file.databases.map(\.store.bucket) == ["b"])
    }

    @Test func fileOfTheThirdReleaseIsParsed() throws {
        let file = try parse(
            #"""
            {"bootstrap": {"server": "couchbases://db", "username": "u", "password": "p", "use_tls_server": true},
             "api": {"public_interface": ":1", "admin_interface": ":2", "metrics_interface": ":3", "pretty": true,
              "https": {"tls_cert_path": "c", "tls_key_path": "k"}, "max_connections": 9,
              "cors": {"origin": ["o"], "login_origin": ["l"], "headers": ["h"], "max_age": 7}},
             "logging": {"log_file_path": "/l", "redaction_level": "full",
              "console": {"log_level": "debug", "log_keys": ["*"]}, "error": {"enabled": true}},
             "replicator": {"max_heartbeat": 60, "max_concurrent_replications": 100}}
            """#
        )
        #expect(file.dialect == .third)
        #expect(file.cluster?.server == "couchbases://db" && file.cluster?.username == "u")
        #expect(
            file.listeners.publicInterface.description == ":1"
                && file.listeners.metricsInterface?.description == ":3"
        )
        #expect(file.listeners.certificatePath == "c" && file.listeners.keyPath == "k")
        #expect(file.cors?.loginOrigins == ["l"] && file.cors?.maxAgeSeconds == 7)
        #expect(file.log.path == "/l" && file.log.level == "debug" && file.log.redaction == "full")
        #expect(
            file.http.isPretty && file.http.connectionsMax == 9
                && file.http.heartbeatSecondsMax == 60
        )
        #expect(file.http.replicationsMax == 100)
        #expect(file.notices.map(\.path) == ["bootstrap.use_tls_server", "logging.error"])
    }

    @Test(
        arguments: [
            ("{}", .third, 100), ("{}", .first, 1_000),
            (#"{"allow_conflicts":false}"#, .third, 50),
            (#"{"revs_limit":20}"#, .first, 20), (#"{"compatibility":"1.4"}"#, .third, 1_000),
        ] as [(String, GatewayDialect, Int)]
    ) func revisionLimitFollowsTheDialect(
        text: String,
        dialect: GatewayDialect,
        limit: Int
    ) throws {
        let (database, _) = try view(text) {
            try DatabaseConfiguration.parse($0, name: "d", dialect: dialect)
        }
        #expect(database.revisions.limit == limit)
    }

    @Test func databaseOfAnAdministratorIsParsed() throws {
        let text = #"""
            {"name":"d","server":"walrus:///data","bucket":"b","guest":{"disabled":false,"admin_channels":["*"]},
             "users":{"GUEST":{"disabled":true},"joe":{"email":"j@x","admin_roles":["r"],"name":"joe"}},
             "roles":{"r":{"admin_channels":["c"]}},"allow_empty_password":true,"offline":true,
             "import_docs":"continuous","import_filter":"f","rev_cache_size":5,"cache":{"rev_cache":{"size":7}},
             "session_cookie_name":"s","session_cookie_secure":true,"disable_public_all_docs":true,
             "event_handlers":{"document_changed":[{"handler":"webhook","url":"http://x/?a<b"}]}}
            """#
        let (database, notices) = try view(text) {
            try DatabaseConfiguration.parse($0, name: "d", dialect: .third)
        }
        #expect(notices.isEmpty)
        #expect(database.store.kind == .memory(directory: "/data"))
        #expect(database.principals.users.map(\.name) == ["joe", "GUEST"])
        #expect(!database.principals.users[1].isDisabled)
        #expect(database.principals.users[0].roles == ["r"])
        #expect(database.principals.roles[0].channels == ["c"])
        #expect(database.principals.allowsEmptyPassword && database.isOffline)
        #expect(
            database.imports.isEnabled && database.imports.sharesBucket
                && database.imports.filter == "f"
        )
        #expect(database.revisions.cacheCount == 7)
        #expect(database.session.cookieName == "s" && database.session.isSecure == true)
        #expect(!database.features.hasPublicAllDocuments)
        #expect(
            database.extensions.eventHandlers
                == Array(
                    #"{"document_changed":[{"handler":"webhook","url":"http://x/?a\u003cb"}]}"#.utf8
                )
        )
    }

    @Test func deepFilesAreRefused() {
        let text = String(repeating: "[", count: 100_000)
        #expect(mistake(text) == "1:65: expected at most 64 nested brackets")
    }

    @Test func manyBackQuotesTakeLinearTime() {
        let text = "{\"a\":\"" + String(repeating: "\\`", count: 500_000) + "\"}"
        #expect(
            mistake(text)?.hasSuffix("expected a valid character or escape in the string") == true
        )
    }
}
