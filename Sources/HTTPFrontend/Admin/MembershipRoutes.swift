internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Nodes: add, join, eject, fail over, recover.
extension AdminRoutes {
    static let membership: [Route] = [
        Route(
            .post,
            "/controller/addNode",
            access: .securityWrite,
            needsCluster: true,
            handler: addNode
        ),
        Route(
            .post,
            "/controller/addNodeV2",
            access: .securityWrite,
            needsCluster: true,
            handler: addNode
        ),
        Route(
            .post,
            "/pools/default/serverGroups/*/addNode",
            access: .securityWrite,
            needsCluster: true,
            handler: addNode
        ),
        Route(.post, "/node/controller/doJoinCluster", access: .securityWrite, handler: joinCluster)
            .accepting([
                "hostname", "user", "password", "services", "clusterMemberHostIp",
                "clusterMemberPort",
                "fingerprint",
            ]),
        Route(.post, "/controller/rotateSecrets", access: .securityWrite, needsCluster: true) {
            call in
            Reply(await call.service.cluster.rotateSecrets())
        }.accepting(),
        Route(.post, "/controller/ejectNode", access: .poolsWrite, needsCluster: true) { call in
            guard let name = otpNodes(call).first else { return unknownServer }
            return Reply(
                await call.service.membership.eject(resolve(name, call), by: call.identity.login)
            )
        }.accepting(["otpNode"]),
        recovery("reAddNode", .full),
        recovery("reFailOver", .none),
        Route(
            .post,
            "/controller/setRecoveryType",
            access: .poolsWrite,
            needsCluster: true,
            handler: setRecoveryType
        )
        .accepting(["otpNode", "recoveryType"]),
        Route(
            .post,
            "/controller/failOver",
            access: .poolsWrite,
            needsCluster: true,
            handler: failOver
        )
        .accepting(["otpNode", "allowUnsafe"], lists: ["otpNode"]),
        Route(
            .post,
            "/controller/startFailover",
            access: .poolsWrite,
            needsCluster: true,
            handler: failOver
        )
        .accepting(["otpNode", "allowUnsafe"], lists: ["otpNode"]),
        Route(.post, "/controller/startGracefulFailover", access: .poolsWrite, needsCluster: true) {
            call in
            Reply(
                await call.service.membership.startGracefulFailover(
                    otpNodes(call),
                    by: call.identity.login
                )
            )
        }.accepting(["otpNode"], lists: ["otpNode"]),
        Route(.post, "/controller/hardResetNode", access: .poolsWrite) { call in
            Reply(await call.service.engagement.reset()) { text, _ in .text(text, status: 500) }
        }.accepting(),
    ]

    private static func recovery(_ name: String, _ type: RecoveryType) -> Route {
        Route(.post, "/controller/\(name)", access: .poolsWrite, needsCluster: true) { call in
            guard let node = otpNodes(call).first else { return unknownServer }
            return Reply(
                await call.service.membership.setRecovery(node, type, by: call.identity.login)
            )
        }.accepting(["otpNode"])
    }

    private static func otpNodes(_ call: Call) -> [String] {
        call.request.form.all("otpNode").flatMap { $0.split(separator: ",").map(String.init) }
    }

    /// The otpNode of a name from a form; `Self` and `zzzzForce`, which tools send, are this node.
    private static func resolve(_ name: String, _ call: Call) -> String {
        guard name == "Self" || name == "zzzzForce" else { return name }
        return call.state.node(number: call.service.thisNode)?.otpNode ?? name
    }

    private static var unknownServer: Reply {
        .text("Unknown server given.", status: 400)
    }

    // MARK: Adding

    /// Any other field is refused: a misspelt field would otherwise add the node with defaults.
    private static let addNodeFields: Set = [
        "hostname", "user", "password", "services", "clientCertAuth", "fingerprint",
    ]

    @Sendable private static func addNode(_ call: Call) async -> Reply {
        let form = call.request.form
        let unknown = form.pairs.map(\.name).filter { !addNodeFields.contains($0) }
        guard unknown.isEmpty else {
            return .json(.array(unknown.map { .string("\($0): Unsupported key") }), status: 400)
        }
        guard form["clientCertAuth"] ?? "false" == "false" else {
            let text =
                "clientCertAuth: nodes always prove their keys to each other, without certificates of an authority"
            return .list(text, status: 400)
        }
        guard let address = form["hostname"], !address.isEmpty else {
            return .list("Missing hostname", status: 400)
        }
        var group: String?
        if let uuid = call.captures.first.map({ String(decoding: $0, as: UTF8.self) }) {
            guard let found = call.state.groups.first(where: { $0.uuid == uuid }) else {
                return .notFound
            }
            group = found.name
        }
        let outcome = await call.service.membership.addNode(
            address,
            token: form["password"] ?? "",
            fingerprint: form["fingerprint"],
            services: (form["services"] ?? "kv").split(separator: ",").map(String.init),
            group: group,
            by: call.identity.login
        )
        if case .done(let name) = outcome { return .json(["otpNode": .string(name)]) }
        return Reply(outcome, Reply.list)
    }

    @Sendable private static func joinCluster(_ call: Call) async -> Reply {
        let form = call.request.form
        var address = form["hostname"] ?? ""
        if address.isEmpty, let host = form["clusterMemberHostIp"] {
            address = host + ":" + (form["clusterMemberPort"] ?? "8091")
        }
        guard !address.isEmpty else {
            return .list("Missing hostname", status: 400)
        }
        guard form["services"] ?? "kv" == "kv" else {
            return .list("services: this server supports only the data service (kv)", status: 400)
        }
        let login = (form["user"] ?? "", form["password"] ?? "")
        let outcome = await call.service.membership.joinCluster(
            at: address,
            login: login,
            fingerprint: form["fingerprint"]
        )
        var reply = Reply(outcome, busy: 400, Reply.list)
        if case .done = outcome { reply.headers.append(("Location", "/pools/default")) }
        return reply
    }

    // MARK: Recovery and failover

    @Sendable private static func setRecoveryType(_ call: Call) async -> Reply {
        let form = call.request.form
        var wrong: [(String, JSONText)] = []
        let recovery: RecoveryType? =
            switch form["recoveryType"] {
            case "full": .full
            case "delta": .delta
            default: nil
            }
        if recovery == nil {
            wrong.append(("recoveryType", "recovery type must be either 'delta' or 'full'"))
        }
        let node = form["otpNode"].flatMap { call.service.cluster.node(named: $0) }
        if node == nil { wrong.append(("otpNode", "invalid node name or node not found")) }
        guard let recovery, let node, wrong.isEmpty else {
            return .json(.object(wrong), status: 400)
        }
        let login = call.identity.login
        let outcome = await call.service.membership.setRecovery(node.otpNode, recovery, by: login)
        switch outcome {
        case .done: return .json([])
        case .refused(let text): return .json(["otpNode": .string(text)], status: 400)
        case .busy, .failed: return Reply(outcome)
        }
    }

    @Sendable private static func failOver(_ call: Call) async -> Reply {
        let names = otpNodes(call)
        guard !names.isEmpty else { return unknownServer }
        let isUnsafe = call.request.form["allowUnsafe"] == "true"
        // An unsafe failover begins a new epoch, which ends a rebalance that runs.
        if call.state.rebalance != nil, !isUnsafe {
            return .text("Cannot failover during rebalance.", status: 503)
        }
        let outcome = await call.service.membership.failOver(
            names,
            by: call.identity.login,
            isUnsafe: isUnsafe
        )
        // The reply of an unsafe failover names the data that it lost.
        if isUnsafe, case .done(let text) = outcome, !text.isEmpty {
            return .text(text, status: 200)
        }
        return Reply(outcome)
    }
}
