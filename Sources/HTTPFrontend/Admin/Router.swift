internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Finds the route of a request, authorizes the request, and calls the route's handler.
struct Router: Sendable {
    let service: AdministrationService
    private let authentication: Authentication
    private let sessions = Sessions()
    private let machine: Machine
    private let routes: [Route]

    init(service: AdministrationService) {
        self.service = service
        let machine = Machine(directory: service.settings.directory)
        self.machine = machine
        service.readMachine { [weak service] in
            machine.reading(nowMilliseconds: service?.wallMilliseconds ?? 0)
        }
        authentication = Authentication(service: service, sessions: sessions)
        routes =
            Routes.session + Routes.pools + Routes.nodes + Routes.provisioning
            + Routes.nodeSetup + Routes.buckets
            + Routes.alternateAddresses + Routes.configurations + Routes.documents
            + Routes.statistics + Routes.settings
            + Routes.users + Routes.collections + Routes.membership + Routes.rebalance
            + Routes.retries
            + Routes.autoFailover + Routes.groups
            + Routes.absent + Routes.console
    }

    /// How many times a request is repeated if another change of the same state overtakes it.
    private static let repetitionsMax = 10

    /// An authorized request whose body is still to be read.
    struct Admitted: Sendable {
        let route: Route
        let identity: Identity
        let captures: [[UInt8]]
        /// Maximum size of the request's body.
        let bodyBytesMax: Int
    }

    enum Decision: Sendable {
        case admitted(Admitted)
        case refused(Reply)
    }

    /// Admits or refuses a request by method, path and headers alone, so that an unauthorized
    /// client cannot make the node read a body.
    func admit(_ request: AdminRequest) -> Decision {
        let state = service.state
        guard service.isServing else {
            return .refused(.text("The node is starting or stopping.\r\n", status: 503))
        }
        var allowed: [String] = []
        for route in routes {
            guard let captures = route.captures(of: request.segments) else { continue }
            guard route.method == request.method.routed else {
                allowed.append(route.method.rawValue)
                continue
            }
            return admit(request, to: route, captures, state)
        }
        return .refused(allowed.isEmpty ? .notFound : .methodNotAllowed(allowed))
    }

    /// Calls the route's handler with this node's state; if the request needs the current state,
    /// with one that includes every earlier acknowledged change.
    func answer(_ request: AdminRequest, _ admitted: Admitted) async -> Reply {
        // If the cluster was provisioned while the body was received, authorize the request again.
        if admitted.identity == .unprovisioned, service.state.isProvisioned,
            case .refused(let reply) = admit(request)
        {
            return reply
        }
        if let wrong = request.flaw(ofBody: admitted.route.body) { return .refused([wrong]) }
        if request.isValidationOnly, !request.isRead, !admitted.route.validates {
            let text = "This request does not support validation alone. Nothing was changed."
            return .refused([FieldError("just_validate", text)])
        }
        var isStale = false
        var state = service.state
        if request.needsCurrentState, state.nodes.count > 1 {
            do {
                state = try await service.readCurrent()
            } catch {
                // Without a majority or during an election, reply from this node's state and mark
                // the reply as stale.
                isStale = true
                state = service.state
            }
        }
        var call = Call(
            request: request,
            state: state,
            identity: admitted.identity,
            captures: admitted.captures,
            service: service,
            sessions: sessions,
            machine: machine
        )
        var reply = await admitted.route.handler(call)
        for _ in 0..<Self.repetitionsMax where reply.isOvertaken {
            call = call.refreshed
            reply = await admitted.route.handler(call)
        }
        if isStale { reply.headers.append(("Divan-Stale", "true")) }
        return reply
    }

    private func admit(
        _ request: AdminRequest,
        to route: Route,
        _ captures: [[UInt8]],
        _ state: ClusterState
    ) -> Decision {
        if request.isFromAnotherSite {
            let text = "The request comes from a page of another site and is refused.\r\n"
            return .refused(.text(text, status: 403))
        }
        if let uuid = request.query["uuid"], let own = state.uuid, uuid != own {
            let text = "Cluster uuid does not match the requested.\r\n"
            return .refused(.text(text, status: 404))
        }
        let identity = authentication.identity(of: request, state)
        let name = captures.first.flatMap { String(validating: $0, as: UTF8.self) }
        if let refusal = authentication.refusal(
            of: identity,
            for: route.access,
            request,
            bucket: name,
            state
        ) {
            return .refused(refusal)
        }
        if let refusal = refusal(ofTarget: request, route) { return .refused(refusal) }
        if route.needsCluster, !state.isProvisioned {
            return .refused(.json("unknown pool", status: 404))
        }
        if let uuid = request.query["bucket_uuid"], let name,
            let bucket = state.bucket(named: name), bucket.settings.uuid != uuid
        {
            let text = "Bucket uuid does not match the requested.\r\n"
            return .refused(.text(text, status: 404))
        }
        // A document's value may be 20 MiB, and percent-encoding can triple it.
        let isAdministrator = identity?.isAdministrator == true
        let admitted = Admitted(
            route: route,
            identity: identity ?? .anonymous,
            captures: captures,
            bodyBytesMax: isAdministrator ? 64 << 20 : 16 << 10
        )
        return .admitted(admitted)
    }

    /// Refuses text that is not UTF-8: replacement characters could make two names equal.
    private func refusal(ofTarget request: AdminRequest, _ route: Route) -> Reply? {
        guard !request.isTargetDamaged, route.isReadable(request.segments) else {
            let text = "The path or query is not UTF-8. Percent-encode the bytes of a key.\r\n"
            return .text(text, status: 400)
        }
        return request.queryFields.illFormedField(besides: route.rawQuery).map { .refused([$0]) }
    }
}

extension AdminRequest.Method {
    /// The method whose route serves the request: GET for HEAD, whose reply omits the body.
    fileprivate var routed: AdminRequest.Method { self == .head ? .get : self }
}

extension AdminRequest {
    /// First path segments of routes that read or change the replicated cluster state.
    private static let replicatedRoots = [
        "pools", "poolsStreaming", "nodes", "nodeStatuses", "settings", "internalSettings",
        "controller",
    ].map { Array($0.utf8) }

    fileprivate var isRead: Bool { method.routed == .get }

    /// The request reads or changes the replicated cluster state, so it needs a state that includes
    /// every earlier acknowledged change.
    ///
    /// A change that one node acknowledged must be visible on every other node, also to the next
    /// change. `/pools` alone is exempt: it only identifies the server.
    fileprivate var needsCurrentState: Bool {
        guard let first = segments.first, Self.replicatedRoots.contains(first) else { return false }
        return segments.count > 1 || first == Array("nodeStatuses".utf8)
            || first == Array("internalSettings".utf8)
    }
}

/// The routes by subject; each file adds its own.
enum Routes {}
