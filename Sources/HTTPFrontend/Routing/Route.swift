internal import ClusterService
internal import Orchestration
internal import Seams
internal import Vocabulary

/// One entry of the routing table: method, path, access and handler.
struct Route: Sendable {
    typealias Handler = @Sendable (Call) async throws(AdministrationError) -> Reply
    /// Handles a call on an event loop, without waiting.
    typealias PromptHandler = @Sendable (Call) -> PromptReply

    enum PromptReply: Sendable {
        /// A reply whose body is bytes, the same as the handler's.
        case reply(Reply)
        /// The handler is needed; it continues with what has begun.
        case mustWait((any BegunViewQuery)?)
    }

    enum Segment: Sendable {
        case literal([UInt8])
        /// Any single segment that is UTF-8; passed to the handler as a capture.
        case any
        /// Any single segment, of any bytes: a document's key.
        case key
        /// A bucket's name, which `+` and the bucket's UUID may follow; both are captured.
        case bucket
        /// The one segment `_design/NAME` with an encoded slash; NAME is captured.
        case designDocument
        /// All remaining segments, at least one.
        case rest
    }

    /// The content type of a route's request body.
    enum Body: Sendable {
        /// A form; the router refuses any other type before it calls the handler.
        case form
        case json
        /// A document as a form, whose handler parses it.
        case document
        /// The handler parses the body and refuses an invalid one.
        case raw
        /// A design document.
        case designDocument
        /// The parameters of a view query, as JSON.
        case viewQuery

        /// The largest design document that a bucket accepts.
        private static let designDocumentBytesMax = 1 << 20
        /// Some ten thousand keys of common sizes.
        private static let viewQueryBytesMax = 4 << 20

        /// A document's value may be 20 MiB, and percent-encoding can triple it.
        private static let documentBytesMax = 64 << 20

        /// Maximum size of the body.
        ///
        /// Every identity that has access to the bucket may send design documents and queries. Without
        /// a user's password, two bodies must not use all memory for bodies.
        func bytesMax(from identity: Identity) -> Int {
            switch self {
            case .form, .json, .raw, .document:
                switch identity {
                case .unprovisioned, .administrator: Self.documentBytesMax
                case .user: self == .document ? Self.documentBytesMax : 1 << 20
                case .bucket, .guest: 16 << 10
                case .anonymous: LoginWatch.inputBytesMax
                }
            case .designDocument: Self.designDocumentBytesMax
            case .viewQuery: Self.viewQueryBytesMax
            }
        }
    }

    /// The path's text, and the number of its class.
    struct Label: Sendable {
        let pattern: String
        /// The number of the path's `RouteClass`; nil if it has none.
        let kind: Int?

        init(_ pattern: String) {
            self.pattern = pattern
            kind = RouteClass(pattern: pattern).flatMap { RouteClass.allCases.firstIndex(of: $0) }
        }
    }

    let method: RESTRequest.Method
    let label: Label
    let path: [Segment]
    let access: RouteAccess
    /// The route replies 404 until the cluster is provisioned.
    let needsCluster: Bool
    let body: Body
    /// The query fields whose values may be any bytes.
    let rawQuery: Set<String>
    /// The handler supports `just_validate=1`, which changes nothing.
    let validates: Bool
    private let handler: Handler
    /// The form of the handler's errors.
    private var errors = ErrorForm.members
    /// The fields of the query and the form that the route has; nil if the route ignores others.
    private(set) var parameters: Parameters?
    /// Nil if requests of the route are never answered on an event loop.
    private(set) var promptHandler: PromptHandler?
    /// The route is also served while the node starts or stops, and from the state that it has.
    private(set) var isServedAlways = false

    /// - Parameters:
    ///   - method: The HTTP method; HEAD uses the GET routes.
    ///   - path: Segments between slashes; `*` matches any single UTF-8 segment, `<key>` one of any
    ///     bytes, `<bucket>` and `<design>` those of `Segment`, a final `**` all remaining ones.
    ///   - access: The identities that the route serves.
    ///   - needsCluster: Whether the route replies 404 until the cluster is provisioned.
    ///   - body: The content type of the request body.
    ///   - rawQuery: The query fields whose values may be any bytes.
    ///   - validates: Whether the handler supports `just_validate=1`.
    ///   - handler: Makes the reply.
    init(
        _ method: RESTRequest.Method,
        _ path: String,
        access: RouteAccess,
        needsCluster: Bool = false,
        body: Body = .form,
        rawQuery: Set<String> = [],
        validates: Bool = false,
        handler: @escaping Handler
    ) {
        self.method = method
        label = Label(path)
        self.path = path.split(separator: "/").map { segment in
            switch segment {
            case "*": .any
            case "<key>": .key
            case "<bucket>": .bucket
            case "<design>": .designDocument
            case "**": .rest
            default: .literal(Array(segment.utf8))
            }
        }
        self.access = access
        self.needsCluster = needsCluster
        self.body = body
        self.rawQuery = rawQuery
        self.validates = validates
        self.handler = handler
    }

    /// A route of a bucket on the admin port.
    ///
    /// - Parameters:
    ///   - method: As for `init`.
    ///   - path: The path behind that of the bucket.
    ///   - permission: The needed permission, without `cluster.bucket[.]`.
    ///   - body: As for `init`.
    ///   - rawQuery: As for `init`.
    ///   - validates: As for `init`.
    ///   - handler: As for `init`.
    /// - Returns: The route, which replies 404 until the cluster is provisioned.
    static func ofBucket(
        _ method: RESTRequest.Method,
        _ path: String,
        permission: String,
        body: Body = .form,
        rawQuery: Set<String> = [],
        validates: Bool = false,
        handler: @escaping Handler
    ) -> Route {
        Route(
            method,
            "/pools/default/buckets/*" + path,
            access: .permission("cluster.bucket[.]" + permission),
            needsCluster: true,
            body: body,
            rawQuery: rawQuery,
            validates: validates,
            handler: handler
        )
    }

    /// A route that changes settings of the cluster with a form, or only validates them.
    static func setting(
        _ path: String,
        _ access: RouteAccess,
        by method: RESTRequest.Method = .post,
        handler: @escaping Handler
    ) -> Route {
        Route(method, path, access: access, needsCluster: true, validates: true, handler: handler)
    }

    /// This route, which refuses other fields than these: what it does without them is more than a
    /// request with a misspelt one asks for.
    ///
    /// - Parameters:
    ///   - names: The fields; the form of a `raw` body and of a document is checked by the
    ///     route's handler.
    ///   - lists: Those of them that may be repeated.
    /// - Returns: The route.
    func accepting(_ names: [String] = [], lists: Set<String> = []) -> Route {
        var route = self
        route.parameters = Parameters(names: names, lists: lists)
        return route
    }

    /// This route with another form of the handler's errors.
    func failing(as errors: ErrorForm) -> Route {
        var route = self
        route.errors = errors
        return route
    }

    /// The handler's reply, or that of its error.
    func reply(to call: Call) async -> Reply {
        do throws(AdministrationError) {
            return try await handler(call)
        } catch {
            return Reply(error, errors)
        }
    }

    /// This route with a handler that is tried before the first one.
    func answeringPromptly(_ handler: @escaping PromptHandler) -> Route {
        var route = self
        route.promptHandler = handler
        return route
    }

    /// This route, also served while the node starts or stops.
    func servedAlways() -> Route {
        var route = self
        route.isServedAlways = true
        return route
    }

    /// The path's text.
    var pattern: String { label.pattern }

    /// Whether all segments but the keys are UTF-8.
    func isReadable(_ segments: [[UInt8]]) -> Bool {
        segments.enumerated().allSatisfy { place, segment in
            if place < path.count, case .key = path[place] { return true }
            return segment.isText
        }
    }

    /// The bucket in the path, which is the first capture; nil if there is none.
    func bucketName(_ captures: [[UInt8]]) -> String? {
        guard let first = captures.first else { return nil }
        let isBucket = path.contains { if case .bucket = $0 { true } else { false } }
        return isBucket ? BucketSegment(first)?.name : first.text
    }

    /// Whether the path ends in any number of segments.
    var hasRest: Bool {
        if case .rest? = path.last { true } else { false }
    }

    /// The segments that the path's patterns match; nil if the path does not match.
    func captures(of segments: [[UInt8]]) -> [[UInt8]]? {
        guard segments.count == path.count || hasRest else { return nil }
        var captures: [[UInt8]] = []
        for (place, segment) in path.enumerated() {
            guard place < segments.count else { return nil }
            switch segment {
            case .literal(let bytes):
                guard segments[place] == bytes else { return nil }
            case .any, .key, .bucket:
                captures.append(segments[place])
            case .designDocument:
                let prefix = Array("_design/".utf8)
                guard segments[place].starts(with: prefix), segments[place].count > prefix.count
                else { return nil }
                captures.append(Array(segments[place].dropFirst(prefix.count)))
            case .rest:
                captures.append(contentsOf: segments[place...])
                return captures
            }
        }
        return segments.count == path.count ? captures : nil
    }
}

/// The arguments of a route's handler for one request.
struct Call: Sendable {
    let request: RESTRequest
    let route: Route
    /// The cluster state at the time of the request.
    let state: ClusterState
    let identity: Identity
    /// The segments that the patterns of the route's path match.
    let captures: [[UInt8]]
    let service: AdministrationService
    let authentication: Authentication
    let machine: Machine
    let latencies: RequestLatencies

    /// A capture as text; traps if the route's path has fewer.
    func capture(_ place: Int) -> String { String(decoding: captures[place], as: UTF8.self) }

    /// The bucket that the first capture names; nil if it does not exist.
    var bucket: BucketRecord? { state.bucket(named: capture(0)) }

    /// How configurations name nodes whose host is loopback.
    var naming: HostNaming { .address(request.localAddress) }

    /// All nodes except those that are still joining, which no request can use yet.
    var shownNodes: [NodeRecord] { state.nodes.filter { $0.membership != .joining } }

    /// Nodes that are unhealthy from this node's view.
    var silentNodes: [NodeNumber] {
        state.nodes.map(\.number).filter { service.statistics.status(of: $0) == .unhealthy }
    }

    /// The buckets that are visible to the request's identity.
    var visibleBuckets: [BucketRecord] {
        let rights = rights
        return state.buckets.filter { rights.sees(bucket: $0.settings.name) }
    }

    /// The present permissions of the request's identity.
    var rights: Rights { Rights(of: identity, in: state) }

    /// Whether the route still serves the identity, for replies that go on after the request.
    var isServed: Bool {
        let name = route.bucketName(captures)
        return Authentication.refusal(of: identity, for: route.access, bucket: name, state) == nil
    }
}

/// The first segment of a path on the view port: `NAME` or `NAME+UUID`.
struct BucketSegment {
    let name: String
    /// The bucket must have this UUID; nil if the path has none.
    let uuid: String?

    /// Nil if the segment is not UTF-8.
    init?(_ segment: [UInt8]) {
        guard let text = segment.text else { return nil }
        // No bucket's name has this character.
        guard let plus = segment.firstIndex(of: UInt8(ascii: "+")) else {
            (name, uuid) = (text, nil)
            return
        }
        name = String(decoding: segment[..<plus], as: UTF8.self)
        uuid = String(decoding: segment[(plus + 1)...], as: UTF8.self)
    }
}
