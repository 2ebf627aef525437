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

/// The form of a path: `/{db}/_local/{id}`.
///
/// - A segment in braces matches any segment that is not empty. `{db}` and `{doc}` match none that begins with `_`:
///   such paths are the gateway's own.
/// - `{name...}` at the end matches one or several segments, for names that may have slashes.
/// - A slash at the end of a path makes no difference.
package struct RoutePattern: Sendable, CustomStringConvertible {
    private enum Segment: Sendable {
        case literal(String)
        case parameter(String, isOwn: Bool)
    }

    package let description: String
    private let parts: [Segment]
    /// The name of the parameter for all further segments; nil if there is none.
    private let rest: String?

    package init(_ text: String) {
        precondition(text.hasPrefix("/"), "a pattern begins with a slash")
        description = text
        var words = text.split(separator: "/").map(String.init)
        if let last = words.last, last.hasSuffix("...}") {
            rest = String(last.dropFirst().dropLast(4))
            words.removeLast()
        } else {
            rest = nil
        }
        parts = words.map { word in
            guard word.hasPrefix("{"), word.hasSuffix("}") else { return .literal(word) }
            let name = String(word.dropFirst().dropLast())
            return .parameter(name, isOwn: name == "db" || name == "doc")
        }
    }

    /// The segments of the shortest path that may match.
    var segmentCount: Int { parts.count + (rest == nil ? 0 : 1) }

    /// Whether paths of `count` segments may match.
    func mayMatch(count: Int) -> Bool { rest == nil ? count == parts.count : count > parts.count }

    /// The values of the parameters; nil if the path does not match.
    ///
    /// - Parameter path: Decoded segments, without an empty one at the end.
    /// - Returns: The parameters in the order of the pattern.
    func match(_ path: [String]) -> RouteParameters? {
        guard mayMatch(count: path.count) else { return nil }
        for (part, segment) in zip(parts, path) {
            switch part {
            case .literal(let text): if text != segment { return nil }
            case .parameter(_, let isOwn):
                if segment.isEmpty || isOwn && segment.utf8.first == UInt8(ascii: "_") {
                    return nil
                }
            }
        }
        var parameters = RouteParameters()
        for (part, segment) in zip(parts, path) {
            if case .parameter(let name, _) = part { parameters.add(name, segment) }
        }
        if let rest { parameters.add(rest, path[parts.count...].joined(separator: "/")) }
        return parameters
    }
}

/// The parameters of a path, decoded.
package struct RouteParameters: Sendable {
    private var values: [(name: String, value: String)] = []

    package init() {}

    /// The value of a parameter of the route's pattern.
    package subscript(name: String) -> String {
        guard let found = values.first(where: { $0.name == name }) else {
            preconditionFailure("the route's pattern has no parameter \(name)")
        }
        return found.value
    }

    package func contains(_ name: String) -> Bool { values.contains { $0.name == name } }

    mutating func add(_ name: String, _ value: String) { values.append((name, value)) }
}
