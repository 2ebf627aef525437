internal import ClusterService
internal import Orchestration

/// From a new node to a cluster, in one request or in the steps that older tools take.
extension Routes {
    static let provisioning: [Route] = [
        Route(.post, "/clusterInit", .administrator("cluster!write")) { call in
            var form = call.request.form
            // What is not said stays as it is.
            if form["port"] == nil { form = FormParameters(form.pairs + [("port", "SAME")]) }
            return reply(await call.service.initialise(form), call, newBase: true)
        },
        Route(.post, "/settings/web", .administrator("cluster.admin.security!write")) { call in
            let outcome = await call.service.setAdministrator(call.request.form)
            if case .done = outcome { call.sessions.endAll() }
            return reply(outcome, call, newBase: true)
        },
        Route(.get, "/settings/web", .administrator("cluster.admin.security!read")) { call in
            .json([
                "port": .number(call.service.adminPort),
                "username": .string(call.state.administrator?.name ?? ""),
            ])
        },
        Route(.post, "/pools/default", .administrator("cluster.pools!write")) { call in
            reply(await call.service.change(call.request.form), call, newBase: false)
        },
        Route(
            .post,
            "/node/controller/setupServices",
            .administrator("cluster.pools!write"),
            setupServices
        ),
        Route(
            .post,
            "/nodes/self/controller/settings",
            .administrator("cluster.admin.setup!write"),
            setupPaths
        ),
        Route(
            .post,
            "/node/controller/rename",
            .administrator("cluster.admin.setup!write"),
            rename
        ),
    ]

    private static func reply(
        _ outcome: ClusterFormOutcome,
        _ call: Call,
        newBase: Bool
    ) -> Reply {
        switch outcome {
        case .done where newBase:
            .json(["newBaseUri": .string("http://\(authority(call))/")])
        case .done: .done
        case .refused(let errors): .refused(errors)
        case .failed(let text): .failed(text)
        }
    }

    private static func authority(_ call: Call) -> String {
        call.state.node(number: call.service.thisNode).map { NodeJSON(call, $0).hostname } ?? ""
    }

    @Sendable private static func setupServices(_ call: Call) async -> Reply {
        guard call.request.form["services"] != nil else {
            return .refusedList([FieldError("services", "The services are needed")])
        }
        var form = ClusterForm(call.request.form, state: call.state)
        form.judgeServices()
        return form.errors.isEmpty ? .done : .refusedList(form.errors)
    }

    /// Where data lies is said at the start; a tool that says the same is agreed with.
    @Sendable private static func setupPaths(_ call: Call) async -> Reply {
        let own = call.service.settings.directory
        let form = call.request.form
        let paths = ["path", "data_path", "index_path"].flatMap(form.all)
        guard !paths.isEmpty else {
            return .refusedList([FieldError("path", "A path is needed")])
        }
        let others = paths.filter { $0 != own }
        return others.isEmpty
            ? .done
            : .refusedList(
                others.map {
                    FieldError("path", "The data lies in \(own), not in \($0); --data sets it")
                }
            )
    }

    /// A lone node takes any name that it can be reached by.
    @Sendable private static func rename(_ call: Call) async -> Reply {
        guard let name = call.request.form["hostname"], !name.isEmpty else {
            return .refusedList([FieldError("hostname", "The name is needed")])
        }
        let own = call.state.node(number: call.service.thisNode)
        if own?.isLoopback == true, isLoopback(name) { return .done }
        switch await call.service.rename(to: name) {
        case .done: return .done
        case .refused(let text), .busy(let text): return .list(text, status: 400)
        case .failed(let text): return .list(text, status: 500)
        }
    }

    private static func isLoopback(_ name: String) -> Bool {
        name == "localhost" || name == "::1" || name.hasPrefix("127.")
    }
}
