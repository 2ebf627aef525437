internal import ClusterService
internal import Orchestration

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
