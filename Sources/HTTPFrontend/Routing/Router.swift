internal import ClusterService
internal import Orchestration
internal import Seams

/// Finds the route of a request, authorizes the request, and calls the route's handler.
///
/// Each port has a router; its `RouteTable` has what is the port's own.
struct Router: Sendable {
    let resources: SharedResources
    let table: any RouteTable
    let authentication: Authentication
    private let routes: RouteIndex

    init(_ resources: SharedResources, _ table: some RouteTable) {
        self.resources = resources
        self.table = table
        authentication = resources.authentication
        routes = RouteIndex(table.routes)
    }

    /// How many times a request is repeated if another change of the same state overtakes it.
    private static let repetitionsMax = 10

    /// An authorized request whose body is still to be read.
    struct Admitted: Sendable {
        let route: Route
        let identity: Identity
        /// The realm of the identity's credentials when the request was admitted.
        let realm: Realm
        let captures: [[UInt8]]
        /// Maximum size of the request's body.
        let bodyBytesMax: Int
    }

    enum Decision: Sendable {
        case admitted(Admitted)
        case refused(Reply)
    }

    var service: AdministrationService { resources.service }

    /// Admits or refuses a request by method, path and headers alone, so that an unauthorized
    /// client cannot make the node read a body.
    func admit(_ request: RESTRequest) async -> Decision {
        let state = service.state
        switch find(request) {
        case .refused(let reply): return .refused(reply)
        case .route(let route, let captures):
            return await admit(request, to: route, captures: captures, in: state)
        }
    }

    enum Found: Sendable {
        case route(Route, captures: [[UInt8]])
        case refused(Reply)
    }

    /// The route of a request.
    func find(_ request: RESTRequest) -> Found {
        if isHidden(from: request) { return .refused(reply(to: .withoutTLS, request)) }
        let isServing = service.cluster.isServing
        var allowed: [String] = []
        for route in routes.candidates(segments: request.segments.count) {
            guard let captures = route.captures(of: request.segments) else { continue }
            guard route.method == request.method.routed else {
                allowed.append(route.method.rawValue)
                continue
            }
            guard isServing || route.isServedAlways else { break }
            return .route(route, captures: captures)
        }
        guard isServing else { return .refused(reply(to: .notServing, request)) }
        let refusal = allowed.isEmpty ? PortRefusal.notFound : .methodNotAllowed(allowed)
        return .refused(reply(to: refusal, request))
    }

    /// Whether a plain port does not serve the request, because it came from another machine.
    private func isHidden(from request: RESTRequest) -> Bool {
        let isLocal = SocketAddress(host: request.localAddress, port: 0).isLoopback
        guard !request.isSecured, !isLocal else { return false }
        // A node that joins asks for the peer port before it can trust a certificate.
        let isIntroduction = request.segments == Self.introduction
        return !isIntroduction && service.state.settings.security.encryptionLevel == .strict
    }

    private static let introduction = ["nodes", "self", "peer"].map { Array($0.utf8) }

    /// Calls the route's handler with this node's state; if the request needs the current state,
    /// with one that includes every earlier acknowledged change.
    ///
    /// A node that has just left a cluster has no record of itself for a moment, which handlers
    /// need: the request waits for it.
    func answer(_ request: RESTRequest, _ admitted: Admitted) async -> Reply {
        let began = service.cluster.monotonicNanoseconds
        let reply = await answerUntimed(request, admitted)
        resources.latencies.record(
            request,
            to: admitted.route,
            nanoseconds: service.cluster.monotonicNanoseconds - began
        )
        return reply
    }

    private func answerUntimed(_ request: RESTRequest, _ admitted: Admitted) async -> Reply {
        if let refusal = table.refusalOfBody(of: request, to: admitted.route) { return refusal }
        if !admitted.route.isServedAlways { await service.cluster.awaitOwnRecord() }
        var isStale = false
        var state = service.state
        if table.needsCurrentState(request, state), state.nodes.count > 1 {
            do {
                state = try await service.cluster.readCurrent()
            } catch {
                // Without a majority or during an election, reply from this node's state and mark
                // the reply as stale.
                isStale = true
                state = service.state
            }
        }
        let identity: Identity
        switch await confirm(admitted, request, in: state) {
        case .refused(let reply): return reply
        case .admitted(let confirmed): identity = confirmed.identity
        }
        var call = call(request, admitted, of: identity, in: state)
        var reply = await admitted.route.reply(to: call)
        for _ in 0..<Self.repetitionsMax where reply.isOvertaken {
            call = call.refreshed
            reply = await admitted.route.reply(to: call)
        }
        if isStale { reply.headers.append(("Divan-Stale", "true")) }
        return reply
    }

    /// The fields of a reply's head, in their order, without those that the server adds to each one.
    ///
    /// Of several fields with a name, the last one counts.
    func headers(of reply: Reply) -> [HeaderField] {
        var fields = table.commonHeaders + reply.headers
        if let type = reply.contentType { fields.append(("Content-Type", type)) }
        return fields
    }

    /// The field `Strict-Transport-Security` of each response on a connection with TLS; nil if there is none.
    func strictTransport(over connection: ConnectionWatch?) -> String? {
        guard connection?.secured != nil else { return nil }
        let value = service.state.settings.security.strictTransport
        return value.isEmpty ? nil : value
    }

    func call(
        _ request: RESTRequest,
        _ admitted: Admitted,
        of identity: Identity,
        in state: ClusterState
    ) -> Call {
        Call(
            request: request,
            route: admitted.route,
            state: state,
            identity: identity,
            captures: admitted.captures,
            service: service,
            authentication: authentication,
            machine: resources.machine,
            latencies: resources.latencies
        )
    }

    private func refuse(_ refusal: PortRefusal, _ request: RESTRequest) -> Decision {
        .refused(reply(to: refusal, request))
    }

    private func reply(to refusal: PortRefusal, _ request: RESTRequest) -> Reply {
        table.reply(to: refusal, of: request)
    }

    /// Admits or refuses an admitted request again, by a newer state.
    ///
    /// The body can arrive long after the headers, and this node's state may have been behind that of
    /// another node, which acknowledged a new password or fewer rights.
    private func confirm(
        _ admitted: Admitted,
        _ request: RESTRequest,
        in state: ClusterState
    ) async -> Decision {
        let route = admitted.route
        guard Realm(of: admitted.identity, in: state) == admitted.realm else {
            return await admit(request, to: route, captures: admitted.captures, in: state)
        }
        let refusal = Authentication.refusal(
            of: admitted.identity,
            for: route.access,
            bucket: route.bucketName(admitted.captures),
            state
        )
        return refusal.map { refuse($0, request) } ?? .admitted(admitted)
    }

    private func admit(
        _ request: RESTRequest,
        to route: Route,
        captures: [[UInt8]],
        in state: ClusterState
    ) async -> Decision {
        if let refusal = refusalBeforeAuthentication(request, state) { return .refused(refusal) }
        let identity = await authentication.identity(of: request, state)
        return admit(request, of: identity, to: route, captures: captures, in: state)
    }

    /// A refusal that does not depend on the sender; nil if there is none.
    func refusalBeforeAuthentication(_ request: RESTRequest, _ state: ClusterState) -> Reply? {
        if request.isFromAnotherSite { return reply(to: .fromAnotherSite, request) }
        return table.refusalBeforeAuthentication(of: request, state)
    }

    /// Admits or refuses the request of an identity; nil if its credentials are wrong.
    func admit(
        _ request: RESTRequest,
        of identity: Identity?,
        to route: Route,
        captures: [[UInt8]],
        in state: ClusterState
    ) -> Decision {
        let name = route.bucketName(captures)
        if let refusal = Authentication.refusal(
            of: identity,
            for: route.access,
            bucket: name,
            state
        ) {
            return refuse(refusal, request)
        }
        let sender = identity ?? .anonymous(from: request.origin)
        if let refusal = refusal(ofHost: request, of: sender, route, state) {
            return refuse(refusal, request)
        }
        if let refusal = refusal(ofTarget: request, route) { return refuse(refusal, request) }
        if let reply = table.refusalBeforeBody(of: request, to: route, bucket: name, state) {
            return .refused(reply)
        }
        // A route that is open to every client is no use of a bucket.
        if sender.isAnonymous, !route.access.isOpen { request.connection?.login?.recordGuest() }
        let admitted = Admitted(
            route: route,
            identity: sender,
            realm: Realm(of: sender, in: state),
            captures: captures,
            bodyBytesMax: route.body.bytesMax(from: sender)
        )
        return .admitted(admitted)
    }

    /// Refuses a request without a proof that names another host than this node.
    private func refusal(
        ofHost request: RESTRequest,
        of identity: Identity,
        _ route: Route,
        _ state: ClusterState
    ) -> PortRefusal? {
        var asked = OwnNames.Asked()
        asked.isOpen = route.access.isOpen
        asked.isRead = request.isRead
        asked.isDiscovery = request.segments == [Array("pools".utf8)]
        asked.hasCredentials = request.fields[.authorization] != nil
        asked.isWithoutProof = identity.isWithoutProof
        guard OwnNames.areNeeded(by: asked, isProvisioned: state.isProvisioned) else { return nil }
        let node = state.node(number: service.thisNode)
        let known = [node?.host, node?.alternate?.host].compactMap { $0 }
        let names = OwnNames(service.cluster.settings.hostNames + known)
        return names.contains(request.fields[.host]) ? nil : .foreignHost
    }

    /// Refuses text that is not UTF-8: replacement characters could make two names equal.
    private func refusal(ofTarget request: RESTRequest, _ route: Route) -> PortRefusal? {
        guard !request.isTargetDamaged, route.isReadable(request.segments) else {
            return .illFormedTarget
        }
        return request.queryFields.illFormedField(besides: route.rawQuery).map {
            .illFormedField($0)
        }
    }
}

/// Requests that are answered on an event loop, without waiting.
///
/// The steps are those of `admit` and `answer`, and share their functions. Both parts use one state here,
/// so the request is not authorized a second time.
extension Router {
    /// An admitted request that is passed to the framework: `answer` continues with it.
    struct Prepared: Sendable {
        var request: RESTRequest
        let admitted: Admitted
    }

    enum PromptAnswer: Sendable {
        /// A reply whose body is bytes.
        case reply(Reply)
        /// The request must wait; nil if nothing was done for it.
        case mustWait(Prepared?)
    }

    /// Answers a request without a body if that takes little time.
    func answerNow(_ request: RESTRequest) -> PromptAnswer {
        let began = service.cluster.monotonicNanoseconds
        let state = service.state
        let route: Route
        let captures: [[UInt8]]
        switch find(request) {
        case .route(let found, let segments): (route, captures) = (found, segments)
        case .refused: return .mustWait(nil)
        }
        guard let handler = route.promptHandler else { return .mustWait(nil) }
        if let refusal = refusalBeforeAuthentication(request, state) { return .reply(refusal) }
        guard case .identity(let identity) = authentication.check(request, state) else {
            return .mustWait(nil)
        }
        let admitted: Admitted
        switch admit(request, of: identity, to: route, captures: captures, in: state) {
        case .refused(let reply): return .reply(reply)
        case .admitted(let found): admitted = found
        }
        var prepared = Prepared(request: request, admitted: admitted)
        if let refusal = table.refusalOfBody(of: request, to: route) { return .reply(refusal) }
        if table.needsCurrentState(request, state), state.nodes.count > 1 {
            return .mustWait(prepared)
        }
        switch handler(call(request, admitted, of: admitted.identity, in: state)) {
        case .reply(let reply):
            let ended = service.cluster.monotonicNanoseconds
            resources.latencies.record(request, to: route, nanoseconds: ended - began)
            return .reply(reply)
        case .mustWait(let query):
            prepared.request.begunQuery = query
            return .mustWait(prepared)
        }
    }
}
