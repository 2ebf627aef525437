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

    /// How often a change is judged anew because others came first.
    private static let repetitionsMax = 10

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
        // Its body can take as long as the cluster takes to get an administrator.
        if admitted.identity == .unprovisioned, service.state.isProvisioned,
            case .refused(let reply) = admit(request)
        {
            return reply
        }
        if let wrong = request.flaw(ofBody: admitted.route.body) { return .refused([wrong]) }
        if request.isValidationOnly, !request.isQuestion, !admitted.route.validates {
            let text = "This cannot be validated without being carried out: nothing was changed"
            return .refused([FieldError("just_validate", text)])
        }
        var isStale = false
        var state = service.state
        if request.isAboutCluster, state.nodes.count > 1 {
            do {
                state = try await service.readCurrent()
            } catch {
                // Cut off, or between two leaders: what is known here is better than nothing.
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
            let text = "Requests that another site's page sends are refused.\r\n"
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

    /// Refuses text that is not UTF-8: repaired, two names that differ would become one.
    private func refusal(ofTarget request: AdminRequest, _ route: Route) -> Reply? {
        guard !request.isTargetDamaged, route.isReadable(request.segments) else {
            let text = "The path or query is not UTF-8. Percent-encode the bytes of a key.\r\n"
            return .text(text, status: 400)
        }
        return request.queryFields.illFormedField(besides: route.rawQuery).map { .refused([$0]) }
    }
}

extension AdminRequest.Method {
    /// A HEAD is answered as a GET would be, its body left out.
    fileprivate var asked: AdminRequest.Method { self == .head ? .get : self }
}

extension AdminRequest {
    private static let agreedOn = [
        "pools", "poolsStreaming", "nodes", "nodeStatuses", "settings", "internalSettings",
        "controller",
    ].map { Array($0.utf8) }

    fileprivate var isQuestion: Bool { method.asked == .get }

    /// A question about what the cluster agreed on, or a change that rests on it.
    ///
    /// The answer to a change on one node must be seen on every other, also by the next change.
    /// `/pools` alone is asked by whoever only wants to know who is there.
    fileprivate var isAboutCluster: Bool {
        guard let first = segments.first, Self.agreedOn.contains(first) else { return false }
        return segments.count > 1 || first == Array("nodeStatuses".utf8)
            || first == Array("internalSettings".utf8)
    }
}

/// The routes, by what they are about; each file adds its own.
enum Routes {}
