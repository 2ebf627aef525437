internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Finds the route of a request, asks whether it serves whoever sent it, and has it answered.
struct Router: Sendable {
    let service: AdministrationService
    private let authentication: Authentication
    private let sessions = Sessions()
    private let machine: Machine
    private let routes: [Route]

    init(service: AdministrationService) {
        self.service = service
        machine = Machine(directory: service.settings.directory)
        authentication = Authentication(service: service, sessions: sessions)
        routes =
            Routes.session + Routes.pools + Routes.nodes + Routes.provisioning + Routes.buckets
            + Routes.configurations + Routes.documents + Routes.statistics + Routes.settings
            + Routes.users + Routes.collections
            + Routes.console
    }

    /// A request that may be served, once its body is there.
    struct Admitted: Sendable {
        let route: Route
        let identity: Identity
        let captures: [[UInt8]]
        /// Bytes that its body may have.
        let bodyBytesMax: Int
    }

    enum Decision: Sendable {
        case admitted(Admitted)
        case refused(Reply)
    }

    /// Decides by method, path and headers alone: strangers cannot make us take in a body.
    func admit(_ request: AdminRequest) -> Decision {
        let state = service.state
        guard service.isServing else {
            return .refused(.text("The node is starting or stopping.\r\n", status: 503))
        }
        var allowed: [String] = []
        for route in routes {
            guard let captures = route.captures(of: request.segments) else { continue }
            guard route.method == request.method.asked else {
                allowed.append(route.method.rawValue)
                continue
            }
            return admit(request, to: route, captures, state)
        }
        return .refused(allowed.isEmpty ? .notFound : .methodNotAllowed(allowed))
    }

    func answer(_ request: AdminRequest, _ admitted: Admitted) async -> Reply {
        // Read as a form it would say nothing, and every field would be missed.
        if request.isJSON {
            let text = "The body is read as a form (application/x-www-form-urlencoded), not as JSON"
            return .refused([FieldError("_", text)])
        }
        let call = Call(
            request: request,
            state: service.state,
            identity: admitted.identity,
            captures: admitted.captures,
            service: service,
            sessions: sessions,
            machine: machine
        )
        return await admitted.route.handler(call)
    }

    private func admit(
        _ request: AdminRequest,
        to route: Route,
        _ captures: [[UInt8]],
        _ state: ClusterState
    ) -> Decision {
        if request.isFromAnotherSite {
            let text = "Requests that another site's page sends are refused.\r\n"
            return .refused(.text(text, status: 403))
        }
        if let uuid = request.query["uuid"], let own = state.uuid, uuid != own {
            let text = "Cluster uuid does not match the requested.\r\n"
            return .refused(.text(text, status: 404))
        }
        let identity = authentication.identity(of: request, state)
        let name = captures.first.map { String(decoding: $0, as: UTF8.self) }
        if let refusal = authentication.refusal(
            of: identity,
            for: route.access,
            request,
            bucket: name,
            state
        ) {
            return .refused(refusal)
        }
        if route.needsCluster, !state.isProvisioned {
            return .refused(.json("unknown pool", status: 404))
        }
        if let uuid = request.query["bucket_uuid"], let name,
            let bucket = state.bucket(named: name), bucket.settings.uuid != uuid
        {
            let text = "Bucket uuid does not match the requested.\r\n"
            return .refused(.text(text, status: 404))
        }
        // A document's value may be 20 MiB, and three times that when every byte is encoded.
        let isStranger = identity?.isAdministrator != true
        let admitted = Admitted(
            route: route,
            identity: identity ?? .anonymous,
            captures: captures,
            bodyBytesMax: isStranger ? 16 << 10 : 64 << 20
        )
        return .admitted(admitted)
    }
}

extension AdminRequest.Method {
    /// A HEAD is answered as a GET would be, its body left out.
    fileprivate var asked: AdminRequest.Method { self == .head ? .get : self }
}

/// The routes, by what they are about; each file adds its own.
enum Routes {}
