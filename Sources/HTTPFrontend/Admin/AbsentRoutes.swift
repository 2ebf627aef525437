internal import Orchestration

/// Routes of features that this server does not have, for tools that query them.
///
/// A query is answered truthfully (the feature is off, its settings are empty). A request that
/// would enable such a feature is refused with what to do instead, never answered with a false
/// success.
extension AdminRoutes {
    static let absent: [Route] =
        editions.flatMap { path, sentence in
            [
                Route(.get, path, access: .settingsRead) { _ in missingInEdition(sentence) },
                Route(.post, path, access: .settingsWrite, body: .raw) { _ in
                    missingInEdition(sentence)
                },
            ]
        } + [
            Route(.get, "/settings/alerts", access: .settingsRead) { _ in .json(alerts) },
            Route(.post, "/settings/alerts", access: .settingsWrite) { call in
                refuseEnabling(call, "This server sends no mail; /pools/default lists its alerts")
            },
            Route(.get, "/settings/autoReprovision", access: .settingsRead) { _ in
                .json(["enabled": false, "max_nodes": 1, "count": 0])
            },
            Route(.post, "/settings/autoReprovision", access: .settingsWrite) { call in
                refuseEnabling(
                    call,
                    "This server does not recreate lost copies by itself. Rebalance the cluster"
                )
            },
            // Tools read this before they add a node; if the storage mode is empty, they do not set
            // one.
            Route(.get, "/settings/indexes", access: .settingsRead) { _ in .json(indexes) },
            Route(.post, "/settings/indexes", access: .settingsWrite, body: .raw) { _ in
                missingInEdition("This server has no index service")
            },
            // The count is always 0.
            Route(.post, "/settings/autoReprovision/resetCount", access: .settingsWrite) { _ in
                .done
            },
            // Overrides of the nodes' defaults: there are none.
            Route(.get, "/pools/default/settings/memcached/global", access: .settingsRead) { _ in
                .json([:])
            },
            Route(.post, "/pools/default/settings/memcached/global", access: .settingsWrite) {
                call in
                let text = "This server has no such setting (divan-server --help lists its own)"
                let errors = call.request.form.pairs.map { FieldError($0.name, text) }
                return errors.isEmpty ? .done : .refused(errors)
            },
            Route(
                .get,
                "/pools/default/remoteClusters",
                access: .permission("cluster.xdcr.remote_clusters!read")
            ) { _ in .json([]) },
            Route(
                .post,
                "/pools/default/remoteClusters",
                access: .permission("cluster.xdcr.remote_clusters!write"),
                body: .raw
            ) { _ in
                .refused([FieldError("_", "This server does not replicate to other clusters")])
            },
            Route(.get, "/sampleBuckets", access: .permission("cluster.samples!read")) { _ in
                .json([])
            },
            Route(
                .post,
                "/sampleBuckets/install",
                access: .permission("cluster.buckets!create"),
                body: .raw
            ) { _ in
                let text = "This server has no sample buckets. Create a bucket and load documents"
                return .list(text + " with a client.", status: 400)
            },
            Route(.post, "/diag/eval", access: .permission("cluster.admin.diag!write"), body: .raw)
            {
                _ in .text("This server does not evaluate code from requests.\r\n", status: 403)
            },
        ]

    /// Each path with the reason that is sent in the reply.
    private static let editions = [
        ("/settings/ldap", "This server does not support LDAP users: add local users"),
        ("/settings/audit", "This server keeps no audit log: read /logs for events"),
        ("/settings/querySettings", "This server has no query service"),
    ]

    /// A refusal whose header tells tools that the edition lacks the feature.
    private static func missingInEdition(_ sentence: String) -> Reply {
        Reply.text(sentence + ".\r\n", status: 400).header("X-enterprise-edition-needed", "1")
    }

    /// Accepts `enabled=false`, which is the state, and refuses everything else.
    private static func refuseEnabling(_ call: Call, _ sentence: String) -> Reply {
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
