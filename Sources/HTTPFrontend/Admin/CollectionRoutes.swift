internal import ClusterService
internal import Orchestration

/// Collections are not supported yet; requests are refused with 400, since clients interpret a 404
/// as a missing bucket.
extension Routes {
    static let collections: [Route] = [
        unavailable(.get, "scopes"),
        unavailable(.post, "scopes"),
        unavailable(.put, "scopes"),
        unavailable(.delete, "scopes/*"),
        unavailable(.post, "scopes/*/collections"),
        unavailable(.patch, "scopes/*/collections/*"),
        unavailable(.delete, "scopes/*/collections/*"),
    ]

    private static func unavailable(_ method: RESTRequest.Method, _ rest: String) -> Route {
        let operation = method == .get ? "read" : "write"
        return Route(
            method,
            "/pools/default/buckets/*/\(rest)",
            .permission("cluster.bucket[.].collections!\(operation)"),
            needsCluster: true
        ) { call in
            guard call.bucket != nil else { return .notFound }
            let text = "Collections are not available yet; every document is in the default one"
            return .refused([FieldError("_", text)])
        }
    }
}
