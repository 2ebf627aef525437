internal import Orchestration
package import Vocabulary

/// The sender of a request, as its credentials identify it.
///
/// An identity has no rights of its own: they are read from the cluster state of each request, so that
/// a revocation has effect on the next one.
package enum Identity: Hashable, Sendable {
    /// The node has no cluster yet, and the request may make it one: it comes from loopback, or has the
    /// token of the file `init-token`.
    case unprovisioned(hasToken: Bool)
    case administrator(String)
    /// A local user, by its id.
    case user(String)
    /// A bucket by its name, with its password, as old clients log in.
    case bucket(String)
    /// A password-less bucket by its name, with an empty password.
    case guest(String, from: ClientOrigin)
    case anonymous(from: ClientOrigin)

    /// The identity of a request to a node without a cluster; nil if its credentials are wrong.
    package init?(firstComerFrom origin: ClientOrigin, hasToken: Bool, hasCredentials: Bool) {
        if hasToken || origin == .loopback {
            self = .unprovisioned(hasToken: hasToken)
        } else if hasCredentials {
            return nil
        } else {
            self = .anonymous(from: origin)
        }
    }

    /// The sender for events, for example `"alice"`.
    var text: String {
        switch self {
        case .unprovisioned: "a request before the cluster was initialized"
        case .administrator(let name), .user(let name): "\"\(name)\""
        case .bucket(let name), .guest(let name, _): "the login of bucket \"\(name)\""
        case .anonymous: "a request without a login"
        }
    }

    /// The administrator or local user, as commands name it; empty for other identities, which may order
    /// no command that needs a permission.
    var login: String {
        switch self {
        case .administrator(let name), .user(let name): name
        case .unprovisioned, .bucket, .guest, .anonymous: ""
        }
    }

    /// May do everything.
    var isAdministrator: Bool {
        switch self {
        case .unprovisioned, .administrator: true
        case .user, .bucket, .guest, .anonymous: false
        }
    }

    var isUnprovisioned: Bool { if case .unprovisioned = self { true } else { false } }
    var isAnonymous: Bool { if case .anonymous = self { true } else { false } }

    /// Whether the client has proved nothing: no password, and no token.
    ///
    /// A page of another site can send such requests, in the name of a browser that reaches this node.
    var isWithoutProof: Bool {
        switch self {
        case .unprovisioned(let hasToken): !hasToken
        case .guest, .anonymous: true
        case .administrator, .user, .bucket: false
        }
    }

    /// Whether the identity still exists: a local user or a bucket may have been deleted, and a bucket
    /// may need a password now.
    func exists(in state: ClusterState) -> Bool {
        switch self {
        case .unprovisioned, .administrator, .anonymous: true
        case .user(let id): state.user(id) != nil
        case .bucket(let name): state.bucket(named: name) != nil
        case .guest(let name, let origin):
            state.bucket(named: name)?.settings.passwordless.admits(origin) == true
        }
    }
}
