internal import ClusterService
internal import Orchestration

/// From a new node to a cluster, in one request or in the steps that older tools take.
extension Routes {
    static let provisioning: [Route] = [
        Route(.post, "/clusterInit", .administrator("cluster!write")) { call in
            var form = call.request.form
            // What is not said stays as it is.
            if form["port"] == nil { form = FormParameters(form.pairs + [("port", "SAME")]) }
            if !call.state.isProvisioned {
                let errors = await NodeSetup(call).carryOut()
                guard errors.isEmpty else { return .refused(errors) }
            }
            return reply(await call.service.initialise(form), call, newBase: true)
        },
        Route(.post, "/settings/web", .administrator("cluster.admin.security!write")) { call in
            reply(
                await call.service.setAdministrator(call.request.form),
                call,
                newBase: true
            )
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
        case .overtaken: .overtaken
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
}
