internal import Orchestration

/// A reason to refuse a request that has nothing to do with its route.
///
/// Each port has its own form of these replies (`RouteTable.reply`).
enum PortRefusal: Sendable {
    /// The node is starting or stopping.
    case notServing
    /// No route has the path.
    case notFound
    /// Routes have the path, but only with these methods.
    case methodNotAllowed([String])
    /// A browser sent the request on behalf of another site's page.
    case fromAnotherSite
    /// The request names another host than this node, and its client has proved nothing.
    case foreignHost
    /// The request came from another machine over a plain port, which serves only this one.
    case withoutTLS
    /// The credentials are missing or wrong.
    case unauthorized
    /// The identity lacks this permission.
    case forbidden(String)
    /// The path or the query has bytes that are not UTF-8 where text is required.
    case illFormedTarget
    /// A field of the query is not UTF-8.
    case illFormedField(FieldError)
    /// The body is larger than the route accepts from this identity.
    case bodyTooLarge(bytesMax: Int)
    /// All connections together use the memory for bodies.
    case bodyMemoryExhausted
}
