/// The sender of a request, as its credentials identify it.
enum Identity: Hashable, Sendable {
    /// The node has no administrator yet, so every request is allowed.
    case unprovisioned
    case administrator(String)
    /// A password-less bucket's name with an empty password, as old clients send.
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

/// The identities that a route serves.
enum Access: Sendable {
    /// Every identity: the console's own files, logging in.
    case open
    /// The administrator, named by the permission that another user would need.
    case administrator(String)
    /// The administrator; if password-less buckets exist, every identity, which then sees only
    /// those.
    case discovery
    /// The administrator; every identity if the bucket that the route's first `*` names is
    /// password-less.
    case bucket(String)
}
