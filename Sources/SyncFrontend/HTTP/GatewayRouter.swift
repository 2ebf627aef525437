internal import NIOCore
package import SyncWire

/// Finds the route of a request, and answers what needs none: `OPTIONS`, unknown paths, other methods.
///
/// The answers are those of Sync Gateway 1.4, but that a slash at the end of a path is not redirected.
package final class GatewayRouter: @unchecked Sendable {  // tidy:allow its event loop owns it
    private let crossOrigin: CrossOriginPolicy?
    private let administration: AdministrationGuard
    /// The routes of each port by the number of their paths' segments; the last element has those of all longer
    /// paths.
    private let routes: [PortKind: [[GatewayRoute]]]

    /// - Parameters:
    ///   - routes: The first one that matches a request serves it.
    ///   - crossOrigin: For the public port; nil without the configuration's `CORS`.
    ///   - administration: For the administration port.
    package init(
        _ routes: [GatewayRoute],
        crossOrigin: CrossOriginPolicy? = nil,
        administration: AdministrationGuard = AdministrationGuard()
    ) {
        self.crossOrigin = crossOrigin
        self.administration = administration
        let countMax = routes.reduce(0) { max($0, $1.pattern.segmentCount) } + 1
        var table: [PortKind: [[GatewayRoute]]] = [:]
        for kind in PortKind.allCases {
            table[kind] = (0...countMax).map { count in
                routes.filter { $0.ports.contains(kind) && $0.pattern.mayMatch(count: count) }
            }
        }
        self.routes = table
    }

    /// The route of a request, or the answer of the router itself.
    package enum Found {
        case route(GatewayRoute, RouteParameters)
        /// The path has other methods.
        case methods([RouteMethod])
        case nothing
    }

    /// Answers a request, at once or later.
    func serve(_ exchange: GatewayExchange) {
        let request = exchange.request
        // A question about the server as a whole (RFC 9110, section 9.3.7).
        if request.method == "OPTIONS", request.target == "*" { return exchange.answer(200) }
        if let flaw = request.flaw { return exchange.refuse(flaw) }
        if request.port == .administration, let refusal = administration.refusal(of: request) {
            return exchange.refuse(refusal)
        }
        if let path = Self.cleanPath(request.segments) {
            addOriginHeaders(to: exchange, methods: nil)
            return exchange.answer(301, ["Location": path])
        }
        switch find(request.method, request.segments, on: request.port) {
        case .nothing:
            addOriginHeaders(to: exchange, methods: nil)
            exchange.refuse(Refusal(404, "unknown URL"))
        case .methods(let methods):
            let names = methods.map(\.rawValue)
            addOriginHeaders(to: exchange, methods: names)
            exchange.headers["Allow"] = names.joined(separator: ", ")
            if request.method == "OPTIONS" {
                exchange.answer(204)
            } else {
                exchange.refuse(Refusal(405, ""))
            }
        case .route(let route, let parameters):
            addOriginHeaders(to: exchange, methods: nil)
            exchange.parameters = parameters
            if let coding = request.header("Content-Encoding"), coding != "gzip" {
                let reason = "Unsupported Content-Encoding; use gzip"
                return exchange.refuse(Refusal(415, reason))
            }
            route.handler(exchange)
        }
    }

    /// The path without `.`, `..` and empty segments, to which the client is redirected; nil if it has none.
    ///
    /// Proxies and clients clean paths too, so a name of two dots would reach the gateway from some clients only.
    private static func cleanPath(_ segments: [String]) -> String? {
        let body = segments.last?.isEmpty ?? false ? segments.dropLast() : segments[...]
        guard body.contains(where: { ["", ".", ".."].contains($0) }),
            body.contains(where: { !$0.isEmpty })
        else { return nil }
        var clean: [String] = []
        for segment in body {
            switch segment {
            case "", ".": continue
            case "..": clean = clean.dropLast()
            default: clean.append(PercentCoding.encode(segment))
            }
        }
        let end = body.count < segments.count && !clean.isEmpty ? "/" : ""
        return "/" + clean.joined(separator: "/") + end
    }

    /// The route of a method and a path.
    package func find(_ method: String, _ segments: [String], on port: PortKind) -> Found {
        let path = Self.normalized(segments)
        guard let lists = routes[port] else { return .nothing }
        let candidates = lists[min(path.count, lists.count - 1)]
        let method = RouteMethod(rawValue: method)
        if let method {
            for route in candidates where route.methods.contains(method) {
                if let parameters = route.pattern.match(path) { return .route(route, parameters) }
            }
        }
        var methods: Set<RouteMethod> = []
        for route in candidates where route.pattern.match(path) != nil {
            methods.formUnion(route.methods)
        }
        if methods.isEmpty { return .nothing }
        return .methods(RouteMethod.allCases.filter { methods.contains($0) })
    }

    /// Without an empty segment at the end, and with `_design` and `_local` as segments of their own: clients also
    /// send `_design%2Fname`.
    private static func normalized(_ segments: [String]) -> [String] {
        var path = segments
        if path.last?.isEmpty ?? false { path.removeLast() }
        guard path.count > 1, path[1].utf8.first == UInt8(ascii: "_") else { return path }
        for name in ["_design", "_local"] where path[1].hasPrefix("\(name)/") {
            path.replaceSubrange(1...1, with: [name, String(path[1].dropFirst(name.count + 1))])
        }
        return path
    }

    private func addOriginHeaders(to exchange: GatewayExchange, methods: [String]?) {
        guard let crossOrigin, exchange.request.port == .publicPort else { return }
        let origins = exchange.request.headers("Origin")
        for header in crossOrigin.answerHeaders(origins: origins, methods: methods) {
            exchange.headers.add(header.name, header.value)
        }
    }
}

/// Refuses requests to the administration port that a web page may have made a browser send.
///
/// The port needs no login on its own machine, so that any page could write to it: by a request to the address,
/// which has an `Origin`, or by a name of its own that it lets point to the address (DNS rebinding).
package struct AdministrationGuard {
    /// Names that `Host` may have, beside addresses and `localhost`.
    package var hostNames: [String] = []
    /// Whether a request has an administrator's login; such a request is not refused.
    package var hasLogin: (GatewayRequest) -> Bool = { _ in false }

    package init() {}

    func refusal(of request: GatewayRequest) -> Refusal? {
        let isForeign = request.header("Host").map { !allows(host: $0) } ?? false
        let hasOrigin = request.header("Origin") != nil
        guard isForeign || hasOrigin, !hasLogin(request) else { return nil }
        return Refusal(
            403,
            hasOrigin
                ? "Web pages may not use the administration port; send a login, or no header Origin"
                : "The administration port is addressed by its IP address or as localhost; send a login to use a name"
        )
    }

    /// Whether a value of `Host` is an address, `localhost` or one of the names, with or without a port.
    func allows(host header: String) -> Bool {
        let (host, rest): (Substring, Substring)
        if header.hasPrefix("[") {
            guard let end = header.firstIndex(of: "]") else { return false }
            host = header[header.index(after: header.startIndex)..<end]
            rest = header[header.index(after: end)...]
        } else {
            let end = header.firstIndex(of: ":") ?? header.endIndex
            (host, rest) = (header[..<end], header[end...])
        }
        let isPort = rest.dropFirst().utf8.allSatisfy { (0x30...0x39).contains($0) }
        guard rest.isEmpty || rest.hasPrefix(":") && isPort else { return false }
        let name = (host.hasSuffix(".") ? host.dropLast() : host).lowercased()
        return name == "localhost" || hostNames.contains { $0.lowercased() == name }
            || (try? SocketAddress(ipAddress: name, port: 0)) != nil
    }
}
