internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Rebalance: start, report progress, stop, settings.
extension AdminRoutes {
    private static let readTasks = RouteAccess.permission("cluster.tasks!read")

    static let rebalance: [Route] = [
        Route(
            .post,
            "/controller/rebalance",
            access: .poolsWrite,
            needsCluster: true,
            handler: startRebalance
        )
        .accepting(["knownNodes", "ejectedNodes", "deltaRecoveryBuckets"])
        .failing(as: ErrorForm { text, _ in .json(["error": .string(text)], status: 503) }),
        Route(.post, "/controller/stopRebalance", access: .poolsWrite, needsCluster: true) {
            call throws(AdministrationError) in
            try await call.service.membership.stopRebalance()
            return .done
        }.accepting(["allowUnsafe"]).failing(as: ErrorForm { text, _ in .text(text, status: 504) }),
        Route(
            .get,
            "/pools/default/rebalanceProgress",
            access: readTasks,
            needsCluster: true,
            handler: rebalanceProgress
        ),
        Route(.get, "/settings/rebalance", access: readTasks) { call in
            .json(["rebalanceMovesPerNode": .number(call.state.settings.movesPerNode)])
        },
        Route.setting("/settings/rebalance", .poolsWrite, handler: setMovesPerNode)
            .accepting(["rebalanceMovesPerNode"]),
    ]

    private static func startRebalance(_ call: Call) async throws(AdministrationError) -> Reply {
        let form = call.request.form
        let names = { (field: String) in
            (form[field] ?? "").split(separator: ",").map(String.init)
        }
        let id = try await call.service.membership.rebalance(
            known: names("knownNodes"),
            ejected: names("ejectedNodes"),
            deltaBuckets: names("deltaRecoveryBuckets"),
            by: call.identity.login
        )
        return .json(["rebalance_id": .string(id)])
    }

    @Sendable private static func rebalanceProgress(_ call: Call) async -> Reply {
        guard let rebalance = call.state.rebalance else {
            var members: [(String, JSONText)] = [("status", "none")]
            if let last = call.state.lastRebalance, last.ending == .failed {
                members.append(("errorMessage", .string(last.sentence)))
            }
            return .json(.object(members))
        }
        var members: [(String, JSONText)] = [("status", "running")]
        let report = await call.service.membership.report(of: rebalance)
        for node in report.nodes {
            guard let record = call.state.node(number: node.node) else { continue }
            members.append((record.otpNode, ["progress": .double(node.fraction)]))
        }
        return .json(.object(members))
    }

    private static func setMovesPerNode(_ call: Call) async throws(AdministrationError) -> Reply {
        let asked = call.request.form["rebalanceMovesPerNode"].flatMap(FormParameters.number)
        let range = ClusterSettings.movesPerNodeRange
        guard let asked, asked <= UInt64(UInt16.max), range.contains(Int(asked)) else {
            let text = "The value must be in range from \(range.lowerBound) to \(range.upperBound)"
            return .refused([FieldError("rebalanceMovesPerNode", text)])
        }
        if call.request.isValidationOnly { return .valid }
        var settings = call.state.settings
        settings.movesPerNode = UInt16(asked)
        try await call.service.settings.change(settings: settings, was: call.state.settings)
        return .json(["rebalanceMovesPerNode": .number(asked)])
    }

    // MARK: The task

    /// The rebalance element of `/pools/default/tasks`, which is always present.
    static func rebalanceTask(_ call: Call) async -> JSONText {
        let record = call.state.rebalance
        let last = call.state.lastRebalance
        let kind = record?.kind ?? last?.kind ?? .rebalance
        var members: [(String, JSONText)] = [
            ("statusId", .string(record?.id ?? last?.id ?? call.state.uuid ?? "")),
            ("type", "rebalance"),
            ("subtype", kind == .rebalance ? "rebalance" : "gracefulFailover"),
            ("status", record == nil ? "notRunning" : "running"),
            ("statusIsStale", false),
            ("masterRequestTimedOut", false),
        ]
        guard let record else {
            if let last, last.ending == .failed {
                members.append(("errorMessage", .string(last.sentence)))
            }
            return .object(members)
        }
        let report = await call.service.membership.report(of: record)
        members += [
            ("rebalanceId", .string(record.id)),
            ("recommendedRefreshPeriod", .double(0.25)),
            ("progress", .double(100 * report.fraction)),
            ("perNode", .object(report.nodes.compactMap { perNode($0, call) })),
            ("stageInfo", [:]),
            ("nodesInfo", nodesInfo(record, call)),
        ]
        if let leader = call.service.cluster.raftStatus.leader {
            let name = call.state.node(number: leader)?.otpNode ?? ""
            members.append(("masterNode", .string(name)))
        }
        // Tools require this member.
        let detailed: JSONText =
            report.bucket.map { bucket in
                [
                    "bucket": .string(bucket),
                    "bucketNumber": .number(report.bucketNumber),
                    "bucketsCount": .number(report.bucketsCount),
                    "perNode": .object(report.nodes.compactMap { detail($0, call) }),
                ]
            } ?? [:]
        members.append(("detailedProgress", detailed))
        if let obstacle = report.obstacle {
            members.append(("waitingFor", .string(obstacle)))
        }
        return .object(members)
    }

    private static func nodesInfo(_ record: RebalanceRecord, _ call: Call) -> JSONText {
        func names(_ nodes: [NodeNumber]) -> JSONText {
            .array(nodes.compactMap { call.state.node(number: $0) }.map { .string($0.otpNode) })
        }
        let failed = call.state.nodes.filter { $0.membership == .inactiveFailed }.map(\.number)
        return [
            "active_nodes": names(call.state.activeNodes.map(\.number)),
            "keep_nodes": names(record.kept),
            "eject_nodes": names(record.ejected.filter { !failed.contains($0) }),
            "delta_nodes": names(record.delta),
            "failed_nodes": names(failed),
        ]
    }

    private static func perNode(_ node: RebalanceReport.Node, _ call: Call) -> (String, JSONText)? {
        guard let record = call.state.node(number: node.node) else { return nil }
        return (record.otpNode, ["progress": .double(100 * node.fraction)])
    }

    private static func detail(_ node: RebalanceReport.Node, _ call: Call) -> (String, JSONText)? {
        guard let record = call.state.node(number: node.node) else { return nil }
        return (
            record.otpNode,
            [
                "ingoing": direction(node.detail.ingoing),
                "outgoing": direction(node.detail.outgoing),
            ]
        )
    }

    private static func direction(_ direction: RebalanceProgress.Direction) -> JSONText {
        [
            "docsTotal": .number(direction.documentsTotal),
            "docsTransferred": .number(direction.documentsTransferred),
            "activeVBucketsLeft": .number(direction.activeVBucketsLeft),
            "replicaVBucketsLeft": .number(direction.replicaVBucketsLeft),
        ]
    }
}
