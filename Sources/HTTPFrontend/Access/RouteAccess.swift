internal import Vocabulary

/// The identities that a route serves.
enum RouteAccess: Sendable {
    /// Every request, whatever its credentials: the console's own files, logging in.
    case open
    /// Every login, whatever its permissions; a request without a login only if password-less buckets
    /// exist.
    case login
    /// The identities with a permission; `bucket[.]` in it is the bucket in the request's path.
    case needs(Permission)

    static let poolsRead = permission("cluster.pools!read")
    static let poolsWrite = needs(.poolsWrite)
    static let securityRead = permission("cluster.admin.security!read")
    static let securityWrite = needs(.securityWrite)
    static let settingsRead = permission("cluster.settings!read")
    static let settingsWrite = permission("cluster.settings!write")

    var isOpen: Bool {
        if case .open = self { true } else { false }
    }

    /// The access of a permission's text, for example `cluster.bucket[.].settings!read`; traps if it is
    /// malformed.
    static func permission(_ text: String) -> RouteAccess {
        guard let permission = Permission(text) else {
            preconditionFailure("\(text) is not a permission")
        }
        return .needs(permission)
    }

    /// The permission that a request needs; nil if the route needs none.
    ///
    /// - Parameter name: The bucket in the request's path; nil if the path has none.
    /// - Returns: The permission, with the bucket's name.
    func permission(bucket name: String?) -> Permission? {
        guard case .needs(let permission) = self else { return nil }
        guard permission.owner == .anyBucket else { return permission }
        return Permission(.bucket(name ?? ""), permission.path, operation: permission.operation)
    }
}
