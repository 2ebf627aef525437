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
