internal import ClusterService
internal import Orchestration

/// Pages of features that this server has not, for tools that look at them.
///
/// What can be said truthfully is shown (nothing is set, nothing is sent); whoever wants to switch
/// such a feature on is refused with what to do instead. Never a success that nothing comes of.
extension Routes {
    private static let settingsRead = Access.administrator("cluster.settings!read")
    private static let settingsWrite = Access.administrator("cluster.settings!write")

    static let absent: [Route] =
        editions.flatMap { path, sentence in
            [
                Route(.get, path, settingsRead) { _ in anotherEdition(sentence) },
                Route(.post, path, settingsWrite, body: .raw) { _ in anotherEdition(sentence) },
            ]
        } + [
            Route(.get, "/settings/alerts", settingsRead) { _ in .json(alerts) },
            Route(.post, "/settings/alerts", settingsWrite) { call in
                onlyOff(call, "This server sends no mail; /pools/default lists its alerts")
            },
            Route(.get, "/settings/autoReprovision", settingsRead) { _ in
                .json(["enabled": false, "max_nodes": 1, "count": 0])
            },
            Route(.post, "/settings/autoReprovision", settingsWrite) { call in
                onlyOff(call, "Copies that a node lost are never made anew without being asked for")
            },
            // Tools look here before they add a node, and send back nothing where nothing is chosen.
            Route(.get, "/settings/indexes", settingsRead) { _ in .json(indexes) },
            Route(.post, "/settings/indexes", settingsWrite, body: .raw) { _ in
                anotherEdition("This server has no index service")
            },
            // Nothing was ever counted.
            Route(.post, "/settings/autoReprovision/resetCount", settingsWrite) { _ in .done },
            // What nodes were told beyond their defaults: nothing.
            Route(.get, "/pools/default/settings/memcached/global", settingsRead) { _ in .json([:])
            },
            Route(.post, "/pools/default/settings/memcached/global", settingsWrite) { call in
                let text = "This server has no such setting (divan-server --help lists its own)"
                let errors = call.request.form.pairs.map { FieldError($0.name, text) }
                return errors.isEmpty ? .done : .refused(errors)
            },
            Route(
                .get,
                "/pools/default/remoteClusters",
                .administrator("cluster.xdcr.remote_clusters!read")
            ) { _ in .json([]) },
            Route(
                .post,
                "/pools/default/remoteClusters",
                .administrator("cluster.xdcr.remote_clusters!write"),
                body: .raw
            ) { _ in
                .refused([FieldError("_", "This server does not replicate to other clusters")])
            },
            Route(.post, "/diag/eval", .administrator("cluster.admin.diag!write"), body: .raw) {
                _ in .text("This server does not run code that is sent to it.\r\n", status: 403)
            },
        ]

    /// Tools tell from the header that it is the edition, and not what they asked.
    private static let editions = [
        ("/settings/ldap", "Users of a directory (LDAP) are not known here: add local users"),
        ("/settings/audit", "This server keeps no audit log: /logs tells what happened"),
        ("/settings/clientCertAuth", "Clients log in with names and passwords here"),
        ("/settings/security", "Security settings cannot be changed here"),
        ("/settings/querySettings", "This server has no query service"),
    ]

    private static func anotherEdition(_ sentence: String) -> Reply {
        var reply = Reply.text(sentence + ".\r\n", status: 400)
        reply.headers.append(("X-enterprise-edition-needed", "1"))
        return reply
    }

    /// Off is what it is; everything else is refused.
    private static func onlyOff(_ call: Call, _ sentence: String) -> Reply {
        switch call.request.form["enabled"] {
        case "false": .done
        case "true": .refused([FieldError("enabled", sentence)])
        case nil: .refused([FieldError("enabled", "The value must be supplied")])
        default: .refused([FieldError("enabled", "The value must be true or false")])
        }
    }

    private static var indexes: JSONText {
        [
            "redistributeIndexes": false,
            "numReplica": 0,
            "enablePageBloomFilter": false,
            "indexerThreads": 0,
            "memorySnapshotInterval": 200,
            "stableSnapshotInterval": 5_000,
            "maxRollbackPoints": 2,
            "logLevel": "info",
            "storageMode": "",
        ]
    }

    private static var alerts: JSONText {
        [
            "enabled": false,
            "recipients": [],
            "sender": "",
            "emailServer": ["host": "", "port": 0, "user": "", "pass": "", "encrypt": false],
            "alerts": [],
        ]
    }
}
