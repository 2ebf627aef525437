internal import Orchestration

/// Every document is in the default collection, which the manifest of a bucket lists alone, here as on the
/// data port.
///
/// Collections cannot be changed yet; requests are refused with 400, since clients interpret a 404 as a
/// missing bucket.
extension AdminRoutes {
    static let collections: [Route] = [
        Route.ofBucket(.get, "/scopes", permission: ".collections!read") { call in
            call.bucket == nil ? .notFound : .json(defaultManifest)
        },
        unavailable(.post, "scopes"),
        unavailable(.put, "scopes"),
        unavailable(.delete, "scopes/*"),
        unavailable(.post, "scopes/*/collections"),
        unavailable(.patch, "scopes/*/collections/*"),
        unavailable(.delete, "scopes/*/collections/*"),
    ]

    /// The manifest of a bucket whose collections were never changed.
    private static var defaultManifest: JSONText {
        let collection: JSONText = ["name": "_default", "uid": "0"]
        let scope: JSONText = ["name": "_default", "uid": "0", "collections": [collection]]
        return ["uid": "0", "scopes": [scope]]
    }

    private static func unavailable(_ method: RESTRequest.Method, _ rest: String) -> Route {
        Route.ofBucket(method, "/\(rest)", permission: ".collections!write") { call in
            guard call.bucket != nil else { return .notFound }
            let text = "Collections are not available yet; every document is in the default one"
            return .refused([FieldError("_", text)])
        }
    }
}
