internal import Bytes
internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// The cluster as a whole: discovery, the pool, versions, identity, permissions, tasks.
extension AdminRoutes {
    static let pools: [Route] = [
        Route(.get, "/pools", access: .poolsRead) { .json(discovery($0)) },
        Route(.get, "/pools/default", access: .poolsRead, needsCluster: true, handler: pool),
        Route(.get, "/pools/nodes", access: .poolsRead, needsCluster: true, handler: pool),
        Route(.get, "/poolsStreaming/default", access: .poolsRead, needsCluster: true) { call in
            .stream(call) { call in PoolJSON(call: call).json(volatile: false).bytes }
        },
        Route(.get, "/pools/default/terseClusterInfo", access: .poolsRead, needsCluster: true) {
            call in
            .json([
                "clusterUUID": .string(call.state.uuid ?? ""),
                "orchestrator": .string(orchestrator(call)),
                "isBalanced": .bool(call.state.isBalanced),
                "clusterCompatVersion": "7.6",
            ])
        },
        Route(.get, "/versions", access: .poolsRead) { _ in .json(versions) },
        Route(.get, "/whoami", access: .login) { .json(whoami($0)) },
        Route(
            .post,
            "/pools/default/checkPermissions",
            access: .login,
            body: .raw,
            handler: checkPermissions
        ),
        Route(
            .get,
            "/pools/default/tasks",
            access: .permission("cluster.tasks!read"),
            handler: tasks
        ),
    ]

    @Sendable private static func pool(_ call: Call) async -> Reply {
        if call.request.query["waitChange"] != nil { return await PoolLongPoll(call: call).reply() }
        return .json(PoolJSON(call: call).json())
    }

    /// The orchestrator's otpNode; "undefined" during an election or without a majority.
    private static func orchestrator(_ call: Call) -> String {
        call.service.cluster.orchestratorNode.flatMap { call.state.node(number: $0)?.otpNode }
            ?? "undefined"
    }

    private static func discovery(_ call: Call) -> JSONText {
        let uuid = call.state.uuid
        let isProvisioned = call.state.isProvisioned
        let isAdministrator = call.rights.allows("cluster.admin.security!write")
        let pool: JSONText = [
            "name": "default",
            "uri": .string("/pools/default?uuid=\(uuid ?? "")"),
            "streamingUri": .string("/poolsStreaming/default?uuid=\(uuid ?? "")"),
        ]
        return [
            "isAdminCreds": .bool(isAdministrator),
            "isROAdminCreds": .bool(
                !isAdministrator && call.rights.allows("cluster.admin.security!read")
            ),
            "isEnterprise": true,
            "configProfile": "default",
            "allowedServices": ["kv"],
            "isDeveloperPreview": false,
            "packageVariant": "divan",
            // Clients recognize a node without a cluster by these being arrays.
            "pools": isProvisioned ? [pool] : [],
            "settings": isProvisioned
                ? [
                    "maxParallelIndexers":
                        .string("/settings/maxParallelIndexers?uuid=\(uuid ?? "")"),
                    "viewUpdateDaemon": .string("/settings/viewUpdateDaemon?uuid=\(uuid ?? "")"),
                ] : [],
            "uuid": uuid.map(JSONText.string) ?? [],
            "prod": "server",
            "prodName": "Couchbase Server",
            "implementationVersion": .string(Release.couchbaseVersion),
            "componentsVersion": components,
            "divanVersion": .string(Release.version),
        ]
    }

    /// Tools read the version of `ns_server`, which is the REST interface that a release has.
    private static let components: JSONText = [
        "ns_server": .string(Release.couchbaseVersion), "divan": .string(Release.version),
    ]

    private static var versions: JSONText {
        [
            "implementationVersion": .string(Release.couchbaseVersion),
            "componentsVersion": components,
            "divanVersion": .string(Release.version),
        ]
    }

    private static func whoami(_ call: Call) -> JSONText {
        switch call.identity {
        case .administrator(let name):
            ["id": .string(name), "domain": "admin", "roles": [["role": "admin"]]]
        case .unprovisioned:
            ["id": "", "domain": "wrong_token", "roles": [["role": "admin"]]]
        case .user(let id):
            call.state.user(id).map(UserJSON.user) ?? [
                "id": .string(id), "domain": .string(UserJSON.domain),
            ]
        case .bucket(let name), .guest(let name, .loopback):
            [
                "id": .string(name), "domain": "bucket",
                "roles": [["role": "bucket_full_access", "bucket_name": .string(name)]],
            ]
        case .guest(let name, .network):
            ["id": .string(name), "domain": "bucket", "roles": []]
        case .anonymous:
            ["id": "", "domain": "anonymous", "roles": []]
        }
    }

    // MARK: Permissions

    /// `cluster.bucket[b].data.docs!read,cluster!admin` -> each with whether it is granted.
    @Sendable private static func checkPermissions(_ call: Call) async -> Reply {
        let body = String(validating: call.request.body, as: UTF8.self) ?? ""
        let permissions = body.split(separator: ",").map { $0.filter { !$0.isWhitespace } }
        guard !permissions.isEmpty, permissions.allSatisfy({ Permission($0) != nil }) else {
            return .json("Malformed permissions.", status: 400)
        }
        let rights = call.rights
        var seen: Set<String> = []
        let allowed = permissions.filter { seen.insert($0).inserted }
            .map { ($0, JSONText.bool(rights.allows($0))) }
        return .json(.object(allowed))
    }

    // MARK: Tasks

    @Sendable private static func tasks(_ call: Call) async -> Reply {
        var tasks = [await rebalanceTask(call)]
        let own = call.state.node(number: call.service.thisNode)?.otpNode ?? ""
        for bucket in call.visibleBuckets {
            let name = bucket.settings.name
            guard
                case .warmingUp(let progress) = call.service.cluster.dataPlane.status(
                    ofBucket: name
                )
            else { continue }
            tasks.append([
                "type": "warming_up",
                "recommendedRefreshPeriod": .double(2),
                "status": "running",
                "bucket": .string(name),
                "node": .string(own),
                "progress": .double(100 * progress),
            ])
        }
        tasks += compactionTasks(call)
        tasks += indexerTasks(call)
        // Only tasks that were started by a request have an identifier, and there are none yet.
        if call.request.query["taskId"] != nil { return .notFound }
        return .json(.array(tasks))
    }
}

/// `GET /pools/default?waitChange=ms&etag=E`: replies once the pool's tag is no longer E, or after
/// the timeout.
///
/// - The tag covers the content of `/poolsStreaming/default`, without volatile statistics.
struct PoolLongPoll {
    /// Upper bound of a client's timeout, which also bounds waiting for a client that disconnected.
    ///
    /// Clients repeat the request.
    private static let waitMax = Duration.seconds(60)
    /// Interval of re-rendering without a notification: some changes, for example of a bucket's
    /// warmup, notify nothing.
    private static let recheck = Duration.seconds(1)

    let call: Call

    func reply() async -> Reply {
        let query = call.request.query
        guard let milliseconds = query["waitChange"].flatMap(FormParameters.number) else {
            return .refused([FieldError("waitChange", "waitChange is a number of milliseconds")])
        }
        let clock = ContinuousClock()
        let wait = min(Duration.milliseconds(min(milliseconds, 1 << 30)), Self.waitMax)
        let deadline = clock.now + wait
        while true {
            let seen = call.service.cluster.changes
            let current = call.refreshed
            guard current.isServed else { return .empty(401) }
            let tag = Self.tag(current)
            let left = clock.now.duration(to: deadline)
            let isOver = left <= .zero || !call.service.cluster.isServing || Task.isCancelled
            guard tag == query["etag"], !isOver else { return Self.answer(current, tag) }
            let timeout = min(left, Self.recheck)
            _ = await call.service.cluster.waitForChange(
                after: seen,
                nanoseconds: UInt64(timeout / .nanoseconds(1))
            )
        }
    }

    private static func tag(_ call: Call) -> String {
        let json = PoolJSON(call: call).json(volatile: false).bytes
        return String(json.withUnsafeBytes { CRC32.checksum(ByteView($0)) })
    }

    private static func answer(_ call: Call, _ tag: String) -> Reply {
        guard case .object(let members) = PoolJSON(call: call).json() else {
            preconditionFailure("the pool is an object")
        }
        return .json(.object(members + [("etag", .string(tag))]))
    }
}
