internal import Orchestration
internal import Vocabulary

/// The permissions of one identity in one cluster state.
struct Rights: Sendable {
    private enum Scope {
        case everything
        case grants(Grants)
        /// Nothing but the use of password-less buckets.
        case withoutLogin(ClientOrigin)
    }

    private let scope: Scope
    private let state: ClusterState

    init(of identity: Identity, in state: ClusterState) {
        self.state = state
        scope =
            switch identity {
            case .unprovisioned, .administrator: .everything
            case .user(let id): .grants(state.user(id)?.roles ?? .none)
            case .bucket(let name):
                .grants(state.bucket(named: name) == nil ? .none : Self.use(of: name))
            // The name of a bucket proves nothing: from the network it permits what no login permits.
            case .guest(_, .network): .withoutLogin(.network)
            case .guest(let name, .loopback):
                .grants(identity.exists(in: state) ? Self.use(of: name) : .none)
            case .anonymous(let origin): .withoutLogin(origin)
            }
    }

    func allows(_ permission: Permission) -> Bool {
        switch scope {
        case .everything: true
        case .grants(let grants): grants.allows(permission)
        case .withoutLogin(let origin): allowsWithoutLogin(permission, from: origin)
        }
    }

    /// Whether a text's permission is granted; false if the text is malformed.
    func allows(_ text: String) -> Bool { Permission(text).map(allows) ?? false }

    /// Whether the bucket's configuration may be read, so that lists contain the bucket.
    func sees(bucket name: String) -> Bool {
        allows(Permission(.bucket(name), ["settings"], operation: "read"))
    }

    /// Without a login a client finds password-less buckets and uses their views, as very old clients
    /// do; from the network it only reads.
    ///
    /// Documents over HTTP need a login, for which the bucket's name is enough on loopback. A node
    /// without a cluster shows every client that it has none.
    private func allowsWithoutLogin(_ permission: Permission, from origin: ClientOrigin) -> Bool {
        switch permission.owner {
        case .bucket(let name):
            state.bucket(named: name)?.settings.passwordless.admits(origin) == true
                && ["settings", "views"].contains(permission.path.first)
                && (origin == .loopback || permission.operation == "read")
                && Self.use(of: name).allows(permission)
        case .cluster:
            (!state.isProvisioned || state.hasPasswordlessBucket(for: origin))
                && Self.use(of: nil).allows(permission)
        case .anyBucket, .everyBucket:
            false
        }
    }

    /// The grants of an application that uses a bucket; nil for some bucket.
    private static func use(of bucket: String?) -> Grants {
        Grants([RoleGrant(.bucketFullAccess, bucket: bucket)])
    }
}

extension ClusterState {
    /// Whether clients of this origin may use a bucket without a password.
    func hasPasswordlessBucket(for origin: ClientOrigin) -> Bool {
        buckets.contains { $0.settings.passwordless.admits(origin) }
    }
}
