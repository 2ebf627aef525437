internal import Bytes
internal import ClusterService
internal import JSON
internal import Orchestration

/// Server groups: nodes that may fail together, such as those of a rack.
extension AdminRoutes {
    private static let write = RouteAccess.permission("cluster.server_groups!write")
    private static let base = "/pools/default/serverGroups"

    static let groups: [Route] = [
        Route(
            .get,
            base,
            access: .permission("cluster.server_groups!read"),
            needsCluster: true
        ) { call in .json(layout(call)) },
        Route(.post, base, access: write, needsCluster: true) {
            call throws(AdministrationError) in
            let name = call.request.form["name"] ?? ""
            if let refusal = call.state.refusal(ofGroupName: name) { return refused(refusal) }
            try await call.service.membership.addGroup(named: name)
            return .json([])
        }.accepting(["name"]).failing(as: form),
        Route(.put, base, access: write, needsCluster: true, body: .json, handler: assignNodes)
            .failing(as: form),
        Route(.put, base + "/*", access: write, needsCluster: true) {
            call throws(AdministrationError) in
            guard let group = call.state.group(uuid: call.capture(0)) else { return .notFound }
            let name = call.request.form["name"] ?? ""
            if let refusal = call.state.refusal(ofGroupName: name, except: group.uuid) {
                return refused(refusal)
            }
            try await call.service.membership.renameGroup(group.uuid, to: name)
            return .json([])
        }.accepting(["name"]).failing(as: form),
        Route(.delete, base + "/*", access: write, needsCluster: true) {
            call throws(AdministrationError) in
            guard let group = call.state.group(uuid: call.capture(0)) else { return .notFound }
            guard call.state.nodes(ofGroup: group.name).isEmpty else {
                return .json(["_": "group is not empty"], status: 400)
            }
            guard call.state.groups.count > 1 else {
                return .json(["_": "the last group cannot be deleted"], status: 400)
            }
            try await call.service.membership.removeGroup(group.uuid)
            return .json([])
        }.accepting().failing(as: form),
    ]

    private static let form = ErrorForm.members.with(\.failed, 503)

    private static func layout(_ call: Call) -> JSONText {
        let numbers = ClusterNumbers(call)
        let revision = call.state.groupsRevision
        let groups = call.state.groups.map { group -> JSONText in
            let path = "\(base)/\(group.uuid)"
            let nodes = call.state.nodes(ofGroup: group.name)
            return [
                "name": .string(group.name),
                "uri": .string(path),
                "addNodeURI": .string(path + "/addNode"),
                "nodes": .array(
                    nodes.map { NodeJSON(call: call, node: $0).json(numbers: numbers) }
                ),
            ]
        }
        return ["groups": .array(groups), "uri": .string("\(base)?rev=\(revision)")]
    }

    private static func refused(_ text: String) -> Reply {
        .json(["name": .string(text)], status: 400)
    }

    // MARK: Assignment of nodes

    /// `{"groups":[{"uri":..., "nodes":[{"otpNode":...}]}]}`: all groups and all nodes, once each.
    private static func assignNodes(_ call: Call) async throws(AdministrationError) -> Reply {
        let state = call.state
        guard let revision = call.request.query["rev"], revision == "\(state.groupsRevision)" else {
            // The layout changed since the client read it, so its request may be obsolete.
            return .json(layout(call), status: 409)
        }
        let body = call.request.body.withUnsafeBytes { JSONValue.parse(ByteView($0)) }
        guard let asked = body?["groups"]?.array, let members = members(asked, state) else {
            return .json(
                ["_": "Every group and every node of the cluster is to be named once."],
                status: 400
            )
        }
        do throws(AdministrationError) {
            try await call.service.membership.deal(members, revision: state.groupsRevision)
            return .json([])
        } catch {
            guard error == .overtaken else { throw error }
            return .json(layout(call.refreshed), status: 409)
        }
    }

    private static func members(
        _ asked: [JSONValue],
        _ state: ClusterState
    ) -> [GroupLayout.Member]? {
        var members: [GroupLayout.Member] = []
        var named: Set<String> = []
        for entry in asked {
            guard let uri = entry["uri"]?.string, let uuid = uri.split(separator: "/").last,
                let group = state.group(uuid: String(uuid)), named.insert(group.uuid).inserted
            else { return nil }
            for node in entry["nodes"]?.array ?? [] {
                guard let name = node["otpNode"]?.string,
                    let record = state.nodes.first(where: { $0.otpNode == name })
                else { return nil }
                members.append(GroupLayout.Member(node: record.number, group: group.name))
            }
        }
        let numbers = members.map(\.node)
        guard named.count == state.groups.count, Set(numbers).count == numbers.count,
            Set(numbers) == Set(state.nodes.map(\.number))
        else { return nil }
        return members
    }
}
