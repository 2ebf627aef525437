internal import Orchestration

/// The routes of one port and the rules that are the port's own.
///
/// `Router` does what the ports have in common: it finds the route, authenticates and authorizes the
/// request, and repeats an overtaken change.
protocol RouteTable: Sendable {
    var routes: [Route] { get }

    /// Headers of every response; a reply's own fields replace those of the same name.
    var commonHeaders: [HeaderField] { get }

    /// The port's form of a refusal.
    func reply(to refusal: PortRefusal, of request: RESTRequest) -> Reply

    /// Whether the request needs a state that includes every earlier acknowledged change.
    func needsCurrentState(_ request: RESTRequest, _ state: ClusterState) -> Bool

    /// A refusal that precedes authentication; nil if there is none.
    func refusalBeforeAuthentication(of request: RESTRequest, _ state: ClusterState) -> Reply?

    /// A refusal by the headers alone of an authorized request; nil if there is none.
    ///
    /// - Parameters:
    ///   - request: The request, without its body.
    ///   - route: The request's route.
    ///   - name: The bucket in the path; nil if the path has none.
    ///   - state: This node's state.
    /// - Returns: The refusal.
    func refusalBeforeBody(
        of request: RESTRequest,
        to route: Route,
        bucket name: String?,
        _ state: ClusterState
    ) -> Reply?

    /// A refusal of a whole request before its handler is called; nil if there is none.
    func refusalOfBody(of request: RESTRequest, to route: Route) -> Reply?
}

/// The routes of a port by the number of segments of their paths.
///
/// A request is compared only with routes that may match it: a port has more than a hundred.
struct RouteIndex: Sendable {
    /// The last list is for paths that are longer than those of all routes.
    private let routes: [[Route]]

    init(_ routes: [Route]) {
        let longest = routes.map(\.path.count).max() ?? 0
        self.routes = (0...longest + 1).map { count in
            routes.filter { $0.path.count == count || $0.hasRest }
        }
    }

    /// The routes whose paths may match a path with so many segments, in the order of the port's table.
    func candidates(segments count: Int) -> [Route] { routes[min(count, routes.count - 1)] }
}
