internal import ClusterService
internal import Orchestration

/// What a node is told of itself: where its data lies, and by which name others reach it.
extension Routes {
    private static let setup = Access.administrator("cluster.admin.setup!write")

    static let nodeSetup: [Route] = [
        Route(.post, "/nodeInit", setup) { call in
            let unknown = call.request.form.pairs.map(\.name).filter {
                !NodeSetup.fields.contains($0)
            }
            guard unknown.isEmpty else {
                return .refused(unknown.map { FieldError($0, "Unsupported key") })
            }
            let errors = await NodeSetup(call).carryOut()
            return errors.isEmpty ? .done : .refused(errors)
        },
        Route(.post, "/nodes/self/controller/settings", setup, setupPaths),
        Route(.post, "/node/controller/rename", setup, rename),
    ]

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

    @Sendable private static func rename(_ call: Call) async -> Reply {
        guard let name = call.request.form["hostname"], !name.isEmpty else {
            return .refusedList([FieldError("hostname", "The name is needed")])
        }
        switch await NodeSetup(call).rename(to: name) {
        case .done: return .done
        case .refused(let text), .busy(let text): return .list(text, status: 400)
        case .failed(let text): return .list(text, status: 500)
        }
    }
}

/// The parameters of `/nodeInit`, which `/clusterInit` takes too.
///
/// What is said at the start of the process cannot be changed here: who says the same is agreed
/// with, who says anything else is told what to do.
struct NodeSetup {
    private static let paths = ["dataPath", "indexPath", "eventingPath", "analyticsPath"]
    static let fields = Set(paths + ["hostname", "afamily", "afamilyOnly", "javaHome"])

    private let call: Call
    private let form: FormParameters
    private let own: NodeRecord?

    init(_ call: Call) {
        self.call = call
        form = call.request.form
        own = call.state.node(number: call.service.thisNode)
    }

    /// What is wrong, as far as that can be said without doing it.
    func judge() -> [FieldError] { judgePaths() + judgeFamily() }

    /// Judges all of it, then does what there is to do; returns what is wrong.
    func carryOut() async -> [FieldError] {
        let errors = judge()
        guard errors.isEmpty, let name = form["hostname"], !name.isEmpty else { return errors }
        switch await rename(to: name) {
        case .done: return []
        case .refused(let text), .busy(let text), .failed(let text):
            return [FieldError("hostname", text)]
        }
    }

    /// A lone node takes any name that it can be reached by.
    func rename(to name: String) async -> MembershipOutcome {
        let isLone = call.state.nodes.count == 1
        if isLone, own?.isLoopback == true, Self.isLoopback(name) { return .done("") }
        return await call.service.rename(to: name)
    }

    private func judgePaths() -> [FieldError] {
        let directory = call.service.settings.directory
        var errors = Self.paths.compactMap { field -> FieldError? in
            guard let path = form[field], path != directory else { return nil }
            let text = "The data lies in \(directory), not in \(path); --data sets it"
            return FieldError(field, text)
        }
        if form["javaHome"] != nil {
            errors.append(FieldError("javaHome", "This server has no service that runs Java"))
        }
        return errors
    }

    private func judgeFamily() -> [FieldError] {
        let family = own?.host.contains(":") == true ? "ipv6" : "ipv4"
        var errors: [FieldError] = []
        if let asked = form["afamily"], asked != family {
            let text = "This node is reached by \(family): --bind and its name decide that"
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
