/// A method that routes may have, in the order of `Allow`.
package enum RouteMethod: String, CaseIterable, Sendable {
    case get = "GET"
    case head = "HEAD"
    case post = "POST"
    case put = "PUT"
    case delete = "DELETE"
    case patch = "PATCH"
}

/// A handler with the methods and paths that it serves.
package struct GatewayRoute {
    package typealias Handler = (GatewayExchange) -> Void

    package let methods: Set<RouteMethod>
    package let pattern: RoutePattern
    package let ports: Set<PortKind>
    let handler: Handler

    /// - Parameters:
    ///   - methods: With `.get`, the route mostly serves HEAD too: the handler answers as to GET, and the body is not
    ///     sent.
    ///   - pattern: As of `RoutePattern`.
    ///   - ports: Where the route is; on other ports its path is unknown.
    ///   - servesHead: Whether the route serves HEAD with `.get`.
    ///   - handler: Called on the event loop, once for each request.
    package init(
        _ methods: Set<RouteMethod>,
        _ pattern: String,
        on ports: Set<PortKind> = [.publicPort, .administration],
        servesHead: Bool = true,
        handler: @escaping Handler
    ) {
        let addsHead = servesHead && methods.contains(.get)
        self.methods = addsHead ? methods.union([.head]) : methods
        self.pattern = RoutePattern(pattern)
        self.ports = ports
        self.handler = handler
    }
}
