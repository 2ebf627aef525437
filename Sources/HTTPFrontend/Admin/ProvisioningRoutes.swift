internal import ClusterService
internal import Orchestration

/// Provisioning of a new node's cluster, in one request or in the steps of older tools.
extension AdminRoutes {
    static let provisioning: [Route] = [
        Route(.post, "/clusterInit", access: .permission("cluster!write"), validates: true) {
            call throws(AdministrationError) in
            var form = call.request.form
            // A missing port keeps the current one.
            if form["port"] == nil { form = FormParameters(form.pairs + [("port", "SAME")]) }
            // Everything is validated before anything is applied.
            let setup = NodeSetup(call)
            let flaws = call.service.settings.validateInitialisation(form).errors
            let errors = call.state.isProvisioned ? flaws : setup.validate() + flaws
            guard errors.isEmpty else { return .refused(errors) }
            if call.request.isValidationOnly { return .valid }
            let failures = await setup.apply()
            guard failures.isEmpty else { return .refused(failures) }
            try await call.service.settings.initialise(form)
            return newBase(call)
        }.accepting(ClusterForm.initialisationFields + NodeSetup.fields),
        Route(.post, "/settings/web", access: .securityWrite, validates: true) {
            call throws(AdministrationError) in
            if call.request.isValidationOnly {
                return formReply(call.service.settings.validateAdministrator(call.request.form))
            }
            try await call.service.settings.setAdministrator(
                call.request.form,
                isFirst: call.identity.isUnprovisioned,
                by: call.identity.login
            )
            return newBase(call)
        }.accepting(ClusterForm.administratorFields),
        Route(.get, "/settings/web", access: .settingsRead) { call in
            .json([
                "port": .number(call.service.cluster.adminPort),
                "username": .string(call.state.administrator?.name ?? ""),
            ])
        },
        Route(.post, "/pools/default", access: .poolsWrite, validates: true) {
            call throws(AdministrationError) in
            if call.request.isValidationOnly {
                return formReply(call.service.settings.validateChange(call.request.form))
            }
            try await call.service.settings.change(call.request.form)
            return .done
        }.accepting(ClusterForm.settingsFields),
        Route(.post, "/node/controller/setupServices", access: .poolsWrite, handler: setupServices)
            .accepting(["services", "setDefaultMemQuotas"]),
    ]

    private static func newBase(_ call: Call) -> Reply {
        let own = call.state.node(number: call.service.thisNode)
        let authority = own.map { NodeJSON(call: call, node: $0).hostname } ?? ""
        return .json(["newBaseUri": .string("http://\(authority)/")])
    }

    private static func formReply(_ form: ClusterForm) -> Reply {
        form.errors.isEmpty ? .valid : .refused(form.errors)
    }

    @Sendable private static func setupServices(_ call: Call) async -> Reply {
        guard call.request.form["services"] != nil else {
            return .refusedList([FieldError("services", "services is required")])
        }
        var form = ClusterForm(call.request.form, state: call.state)
        form.validateServices()
        return form.errors.isEmpty ? .done : .refusedList(form.errors)
    }
}
