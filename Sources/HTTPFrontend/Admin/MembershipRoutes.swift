internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Nodes: add, join, eject, fail over, recover.
extension AdminRoutes {
    static let membership: [Route] = [
        adding("/controller/addNode"),
        adding("/controller/addNodeV2"),
        adding("/pools/default/serverGroups/*/addNode"),
        Route(.post, "/node/controller/doJoinCluster", access: .securityWrite, handler: joinCluster)
            .accepting([
                "hostname", "user", "password", "services", "clusterMemberHostIp",
                "clusterMemberPort",
                "fingerprint",
            ]).failing(as: busyList),
        Route(.post, "/controller/rotateSecrets", access: .securityWrite, needsCluster: true) {
            call throws(AdministrationError) in
            try await call.service.cluster.rotateSecrets()
            return .done
        }.accepting().failing(as: .text),
        Route(.post, "/controller/ejectNode", access: .poolsWrite, needsCluster: true) {
            call throws(AdministrationError) in
            guard let name = otpNodes(call).first else { return unknownServer }
            try await call.service.membership.eject(resolve(name, call), by: call.identity.login)
            return .done
        }.accepting(["otpNode"]).failing(as: .text),
        recovery("reAddNode", .full),
        recovery("reFailOver", .none),
        Route(
            .post,
            "/controller/setRecoveryType",
            access: .poolsWrite,
            needsCluster: true,
            handler: setRecoveryType
        )
        .accepting(["otpNode", "recoveryType"])
        .failing(
            as: ErrorForm { text, status in
                status == 400
                    ? .json(["otpNode": .string(text)], status: 400) : .text(text, status: status)
            }
        ),
        Route(
            .post,
            "/controller/failOver",
            access: .poolsWrite,
            needsCluster: true,
            handler: failOver
        )
        .accepting(["otpNode", "allowUnsafe"], lists: ["otpNode"]).failing(as: .text),
        Route(
            .post,
            "/controller/startFailover",
            access: .poolsWrite,
            needsCluster: true,
            handler: failOver
        )
        .accepting(["otpNode", "allowUnsafe"], lists: ["otpNode"]).failing(as: .text),
        Route(.post, "/controller/startGracefulFailover", access: .poolsWrite, needsCluster: true) {
            call throws(AdministrationError) in
            let (names, login) = (otpNodes(call), call.identity.login)
            try await call.service.membership.startGracefulFailover(names, by: login)
            return .done
        }.accepting(["otpNode"], lists: ["otpNode"]).failing(as: .text),
        Route(.post, "/controller/hardResetNode", access: .poolsWrite) {
            call throws(AdministrationError) in
            try await call.service.engagement.reset()
            return .done
        }.accepting().failing(as: ErrorForm { text, _ in .text(text, status: 500) }),
    ]

    /// The form of routes that report a running operation like a refusal.
    static let busyList = ErrorForm.list.with(\.busy, 400)

    private static func recovery(_ name: String, _ type: RecoveryType) -> Route {
        Route(.post, "/controller/\(name)", access: .poolsWrite, needsCluster: true) {
            call throws(AdministrationError) in
            guard let node = otpNodes(call).first else { return unknownServer }
            try await call.service.membership.setRecovery(node, type, by: call.identity.login)
            return .done
        }.accepting(["otpNode"]).failing(as: .text)
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

    private static func adding(_ path: String) -> Route {
        Route(.post, path, access: .securityWrite, needsCluster: true, handler: addNode)
            .failing(as: .list)
    }

    private static func addNode(_ call: Call) async throws(AdministrationError) -> Reply {
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
        let name = try await call.service.membership.addNode(
            address,
            token: form["password"] ?? "",
            fingerprint: form["fingerprint"],
            services: (form["services"] ?? "kv").split(separator: ",").map(String.init),
            group: group,
            by: call.identity.login
        )
        return .json(["otpNode": .string(name)])
    }

    private static func joinCluster(_ call: Call) async throws(AdministrationError) -> Reply {
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
        try await call.service.membership.joinCluster(
            at: address,
            login: login,
            fingerprint: form["fingerprint"]
        )
        return Reply.done.header("Location", "/pools/default")
    }

    // MARK: Recovery and failover

    private static func setRecoveryType(_ call: Call) async throws(AdministrationError) -> Reply {
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
        try await call.service.membership.setRecovery(node.otpNode, recovery, by: login)
        return .json([])
    }

    private static func failOver(_ call: Call) async throws(AdministrationError) -> Reply {
        let names = otpNodes(call)
        guard !names.isEmpty else { return unknownServer }
        let isUnsafe = call.request.form["allowUnsafe"] == "true"
        // An unsafe failover begins a new epoch, which ends a rebalance that runs.
        if call.state.rebalance != nil, !isUnsafe {
            return .text("Cannot failover during rebalance.", status: 503)
        }
        let text = try await call.service.membership.failOver(
            names,
            by: call.identity.login,
            isUnsafe: isUnsafe
        )
        // The reply of an unsafe failover names the data that it lost.
        return isUnsafe && !text.isEmpty ? .text(text, status: 200) : .done
    }
}
