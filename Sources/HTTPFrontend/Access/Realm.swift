internal import Orchestration
internal import Vocabulary

/// The scope of an identity's credentials: one cluster, and the stored password of that moment.
///
/// A change of the password, the deletion of the user, or another cluster makes another realm and so
/// ends sessions and streams. Every node reads the realm from its own cluster state, whichever node
/// received the change.
struct Realm: Equatable, Sendable {
    /// Whose password it is, and the password as it is stored.
    private enum Account: Equatable {
        case administrator(Administrator?)
        /// The stored password; nil if the user does not exist.
        case user([UInt8]?)
        /// A recreated bucket has another UUID.
        case bucket(BucketLogin?)
        case none
    }

    private struct BucketLogin: Equatable {
        let uuid: String
        let passwordless: PasswordlessAccess
        let password: [UInt8]
    }

    private let cluster: String?
    private let account: Account

    init(of identity: Identity, in state: ClusterState) {
        cluster = state.uuid
        account =
            switch identity {
            case .unprovisioned, .administrator: .administrator(state.administrator)
            case .user(let id): .user(state.user(id)?.credentials)
            case .bucket(let name), .guest(let name, _):
                .bucket(
                    state.bucket(named: name).map {
                        BucketLogin(
                            uuid: $0.settings.uuid,
                            passwordless: $0.settings.passwordless,
                            password: $0.settings.password
                        )
                    }
                )
            case .anonymous: .none
            }
    }
}
