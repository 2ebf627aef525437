internal import Orchestration
internal import Vocabulary

/// The sender of a request, as its credentials identify it.
///
/// An identity has no rights of its own: they are read from the cluster state of each request, so that
/// a revocation has effect on the next one.
package enum Identity: Hashable, Sendable {
    /// The node has no administrator yet, so every request is allowed.
    case unprovisioned
    case administrator(String)
    /// A local user, by its id.
    case user(String)
    /// A bucket by its name: old clients log in with the bucket's password, or with an empty one if the
    /// bucket is password-less.
    case bucket(String)
    case anonymous

    /// The sender for events, for example `"alice"`.
    var text: String {
        switch self {
        case .unprovisioned: "a request before the cluster was initialized"
        case .administrator(let name), .user(let name): "\"\(name)\""
        case .bucket(let name): "the login of bucket \"\(name)\""
        case .anonymous: "a request without a login"
        }
    }

    /// May do everything.
    var isAdministrator: Bool {
        switch self {
        case .unprovisioned, .administrator: true
        case .user, .bucket, .anonymous: false
        }
    }

    /// Whether the identity still exists: a local user or a bucket may have been deleted.
    func exists(in state: ClusterState) -> Bool {
        switch self {
        case .unprovisioned, .administrator, .anonymous: true
        case .user(let id): state.user(id) != nil
        case .bucket(let name): state.bucket(named: name) != nil
        }
    }
}
