internal import Orchestration
internal import Vocabulary

/// What one identity may do in one cluster state.
struct Rights: Sendable {
    private enum Scope {
        case everything
        case grants(Grants)
        /// Nothing but the use of password-less buckets.
        case withoutLogin
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
            case .anonymous: .withoutLogin
            }
    }

    func allows(_ permission: Permission) -> Bool {
        switch scope {
        case .everything: true
        case .grants(let grants): grants.allows(permission)
        case .withoutLogin: allowsWithoutLogin(permission)
        }
    }

    /// Whether a text's permission is granted; false if the text is malformed.
    func allows(_ text: String) -> Bool { Permission(text).map(allows) ?? false }

    /// Whether the bucket's configuration may be read, so that lists contain the bucket.
    func sees(bucket name: String) -> Bool {
        allows(Permission(.bucket(name), ["settings"], "read"))
    }

    /// Without a login a client finds password-less buckets and uses their views, as very old clients
    /// do.
    ///
    /// Documents over HTTP need a login, for which the bucket's name is enough.
    private func allowsWithoutLogin(_ permission: Permission) -> Bool {
        switch permission.owner {
        case .bucket(let name):
            state.bucket(named: name)?.settings.passwordless == true
                && ["settings", "views"].contains(permission.path.first)
                && Self.use(of: name).allows(permission)
        case .cluster:
            state.hasPasswordlessBucket && Self.use(of: nil).allows(permission)
        case .anyBucket, .everyBucket:
            false
        }
    }

    /// What applications do with a bucket; nil for some bucket.
    private static func use(of bucket: String?) -> Grants {
        Grants([RoleGrant(.bucketFullAccess, bucket: bucket)])
    }
}

extension ClusterState {
    var hasPasswordlessBucket: Bool { buckets.contains(where: \.settings.passwordless) }
}
