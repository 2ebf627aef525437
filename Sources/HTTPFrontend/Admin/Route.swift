internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// One thing a client may ask for: where, how, who, and what answers.
struct Route: Sendable {
    typealias Handler = @Sendable (Call) async -> Reply

    enum Segment: Sendable {
        case literal([UInt8])
        /// Any one segment that is UTF-8; the handler finds it among the captures.
        case any
        /// Any one segment, of any bytes: a document's key.
        case key
        /// All the rest, at least one segment.
        case rest
    }

    /// What a route's body is.
    enum Body: Sendable {
        /// A form; the router refuses any other before the handler is called.
        case form
        case json
        /// The handler reads it, and refuses what it cannot read.
        case raw
    }

    let method: AdminRequest.Method
    let path: [Segment]
    let access: Access
    /// Answers 404 as long as there is no cluster.
    let needsCluster: Bool
    let body: Body
    /// The fields of its query whose values may be any bytes.
    let rawQuery: Set<String>
    /// Its handler looks whether it is to judge only, and to change nothing.
    let validates: Bool
    let handler: Handler

    /// - Parameters:
    ///   - method: What is asked for.
    ///   - path: Segments between slashes; `*` stands for any one, `<key>` for one of any bytes, a
    ///     final `**` for all the rest.
    ///   - access: Whom it serves.
    ///   - needsCluster: Whether it means nothing before provisioning.
    ///   - body: What its body is.
    ///   - rawQuery: The fields of its query whose values may be any bytes.
    ///   - validates: Whether it can judge a change without making it.
    ///   - handler: What answers.
    init(
        _ method: AdminRequest.Method,
        _ path: String,
        _ access: Access,
        needsCluster: Bool = false,
        body: Body = .form,
        rawQuery: Set<String> = [],
        validates: Bool = false,
        _ handler: @escaping Handler
    ) {
        self.method = method
        self.path = path.split(separator: "/").map { segment in
            switch segment {
            case "*": .any
            case "<key>": .key
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

    /// Whether the segments are UTF-8 wherever this route takes no key.
    func isReadable(_ segments: [[UInt8]]) -> Bool {
        segments.enumerated().allSatisfy { place, segment in
            if place < path.count, case .key = path[place] { return true }
            return String(validating: segment, as: UTF8.self) != nil
        }
    }

    /// What `*`, `<key>` and `**` stand for in these segments; nil where the path is another.
    func captures(of segments: [[UInt8]]) -> [[UInt8]]? {
        var captures: [[UInt8]] = []
        for (place, segment) in path.enumerated() {
            guard place < segments.count else { return nil }
            switch segment {
            case .literal(let bytes):
                guard segments[place] == bytes else { return nil }
            case .any, .key:
                captures.append(segments[place])
            case .rest:
                captures.append(contentsOf: segments[place...])
                return captures
            }
        }
        return segments.count == path.count ? captures : nil
    }
}

/// All that a handler needs to answer one request.
struct Call: Sendable {
    let request: AdminRequest
    /// The cluster as it was when the request came.
    let state: ClusterState
    let identity: Identity
    /// What `*`, `<key>` and `**` of the route's path stand for.
    let captures: [[UInt8]]
    let service: AdministrationService
    let sessions: Sessions
    let machine: Machine

    /// A capture as text; routes only ask for those their path has.
    func capture(_ place: Int) -> String { String(decoding: captures[place], as: UTF8.self) }

    /// The bucket that the first capture names, if it is there and may be seen.
    var bucket: BucketRecord? { state.bucket(named: capture(0)) }

    /// How configurations name nodes that only their own machine can reach.
    var naming: HostNaming { .address(request.localAddress) }

    /// The nodes but those that are just being added, which nobody can do anything with.
    var shownNodes: [NodeRecord] { state.nodes.filter { $0.membership != .joining } }

    /// Nodes that serve nobody, as far as is heard here.
    var silentNodes: [NodeNumber] {
        state.nodes.map(\.number).filter { service.status(of: $0) == .unhealthy }
    }

    /// The buckets whoever asks may see.
    var visibleBuckets: [BucketRecord] {
        state.buckets.filter { Authentication.isVisible($0.settings.name, to: identity, state) }
    }
}
