/// Who sent a request.
enum Identity: Hashable, Sendable {
    /// There is no administrator yet, so whoever comes may do everything.
    case unprovisioned
    case administrator(String)
    /// A password-less bucket's name with an empty password, as clients of long ago send.
    case bucket(String)
    case anonymous

    /// May do everything.
    var isAdministrator: Bool {
        switch self {
        case .unprovisioned, .administrator: true
        case .bucket, .anonymous: false
        }
    }
}

/// Whom a route serves.
enum Access: Sendable {
    /// Anybody: the page's own files, logging in.
    case open
    /// The administrator, named by the permission that another user would need.
    case administrator(String)
    /// The administrator; and, where password-less buckets exist, anybody, who then sees only those.
    case discovery
    /// The administrator; anybody for a password-less bucket, which the route's first `*` names.
    case bucket(String)
}
