internal import ClusterService
internal import Orchestration

/// Setup of this node: its data paths and its host name.
extension AdminRoutes {
    private static let setup = RouteAccess.permission("cluster.admin.setup!write")

    static let nodeSetup: [Route] = [
        Route(.post, "/nodeInit", access: setup) { call in
            let errors = await NodeSetup(call).apply()
            return errors.isEmpty ? .done : .refused(errors)
        }.accepting(NodeSetup.fields),
        Route(.post, "/nodes/self/controller/settings", access: setup, handler: setupPaths)
            .accepting(pathFields, lists: Set(pathFields)),
        Route(.post, "/node/controller/rename", access: setup, handler: rename)
            .accepting(["hostname"]).failing(as: busyList),
    ]

    private static let pathFields = [
        "path", "data_path", "index_path", "eventing_path", "cbas_path",
    ]

    /// Accepts only the data directory that the process was started with.
    @Sendable private static func setupPaths(_ call: Call) async -> Reply {
        let own = call.service.cluster.settings.directory
        let form = call.request.form
        let paths = pathFields.flatMap(form.all)
        guard !paths.isEmpty else {
            return .refusedList([FieldError("path", "path is required")])
        }
        let others = paths.filter { $0 != own }
        return others.isEmpty
            ? .done
            : .refusedList(
                others.map {
                    FieldError("path", "The data directory is \(own), not \($0); --data sets it")
                }
            )
    }

    private static func rename(_ call: Call) async throws(AdministrationError) -> Reply {
        guard let name = call.request.form["hostname"], !name.isEmpty else {
            return .refusedList([FieldError("hostname", "hostname is required")])
        }
        try await NodeSetup(call).rename(to: name)
        return .done
    }
}

/// The parameters of `/nodeInit`, which `/clusterInit` accepts too.
///
/// Settings of the command line cannot be changed here: the same value is accepted, another one is
/// refused with the option that sets it.
struct NodeSetup {
    private static let paths = ["dataPath", "indexPath", "eventingPath", "analyticsPath"]
    static let fields = paths + ["hostname", "afamily", "afamilyOnly", "javaHome"]

    private let call: Call
    private let form: FormParameters
    private let own: NodeRecord?

    init(_ call: Call) {
        self.call = call
        form = call.request.form
        own = call.state.node(number: call.service.thisNode)
    }

    /// The errors that can be found without applying the setup.
    func validate() -> [FieldError] { validatePaths() + validateFamily() }

    /// Validates all parameters, then renames the node if a name is given.
    ///
    /// - Returns: The errors; empty after success.
    func apply() async -> [FieldError] {
        let errors = validate()
        guard errors.isEmpty, let name = form["hostname"], !name.isEmpty else { return errors }
        do throws(AdministrationError) {
            try await rename(to: name)
            return []
        } catch {
            return [FieldError("hostname", error.description)]
        }
    }

    /// Renames the node; a single node on loopback keeps its name if the new one is loopback too.
    func rename(to name: String) async throws(AdministrationError) {
        let isLone = call.state.nodes.count == 1
        if isLone, own?.isLoopback == true, Self.isLoopback(name) { return }
        try await call.service.addresses.rename(to: name)
    }

    private func validatePaths() -> [FieldError] {
        let directory = call.service.cluster.settings.directory
        var errors = Self.paths.compactMap { field -> FieldError? in
            guard let path = form[field], path != directory else { return nil }
            let text = "The data directory is \(directory), not \(path); --data sets it"
            return FieldError(field, text)
        }
        if form["javaHome"] != nil {
            errors.append(FieldError("javaHome", "This server has no service that runs Java"))
        }
        return errors
    }

    private func validateFamily() -> [FieldError] {
        let family = own?.host.contains(":") == true ? "ipv6" : "ipv4"
        var errors: [FieldError] = []
        if let asked = form["afamily"], asked != family {
            let text = "This node's address is \(family); --bind and its host name determine that"
            errors.append(FieldError("afamily", text))
        }
        if form["afamilyOnly"] ?? "false" != "false" {
            let text = "The addresses that this node listens on are set with --bind"
            errors.append(FieldError("afamilyOnly", text))
        }
        return errors
    }

    private static func isLoopback(_ name: String) -> Bool {
        name == "localhost" || name == "::1" || name.hasPrefix("127.")
    }
}
