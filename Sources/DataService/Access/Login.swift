internal import Bytes
internal import Credentials
internal import Seams
internal import Vocabulary

/// The identity of a connection's client.
enum Login: Equatable, Sendable {
    case anonymous
    /// The administrator or a local user.
    case user(String, incarnation: UInt64)
    /// A guest of one bucket that needs no password, and from where it connected.
    case guest(bucket: String, from: ClientOrigin)
    /// A client with the password of one bucket.
    case bucketUser(bucket: String, uuid: String)
    /// A client of the plain memcached listener.
    case plain

    /// The user's name: that of the bucket for a login of a bucket; nil without a login by SASL.
    var name: String? {
        switch self {
        case .anonymous, .plain: nil
        case .user(let name, _), .guest(let name, _), .bucketUser(let name, _): name
        }
    }
}

/// The login of a user name, and the keys that verify its password.
struct LoginCandidate: Sendable {
    let login: Login
    let stored: StoredCredentials
}

extension DocumentService {
    /// Finds the login of a user name: a user, otherwise a bucket.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - origin: From where the client connected.
    ///   - emptyPassword: The keys of the empty password, for a bucket that needs none.
    /// - Returns: The login and its keys; nil if there is no user or bucket of this name, or if the
    ///   bucket has neither a password nor permits logins without one.
    func candidate(
        named name: String,
        from origin: ClientOrigin,
        emptyPassword: StoredCredentials?
    ) -> LoginCandidate? {
        if let account = accounts[name] {
            let login = Login.user(name, incarnation: account.incarnation)
            return LoginCandidate(login: login, stored: account.stored)
        }
        guard let bucket = bucket(named: name) else { return nil }
        if let stored = storedPassword(of: bucket) {
            let login = Login.bucketUser(bucket: name, uuid: bucket.uuid)
            return LoginCandidate(login: login, stored: stored)
        }
        guard bucket.settings.passwordless.admits(origin), let emptyPassword else { return nil }
        return LoginCandidate(login: .guest(bucket: name, from: origin), stored: emptyPassword)
    }

    /// The bucket that a client of this name may use without a password; a user of the same name
    /// takes precedence.
    func passwordlessBucket(named name: String, from origin: ClientOrigin) -> OpenBucket? {
        guard let bucket = bucket(named: name), bucket.settings.passwordless.admits(origin)
        else { return nil }
        return bucket
    }

    private func storedPassword(of bucket: OpenBucket) -> StoredCredentials? {
        let text = bucket.settings.password
        return text.isEmpty ? nil : passwords.credentials(stored: text)
    }

    /// The present grants of a login; nil if it is no longer valid.
    func grants(of login: Login) -> Grants? {
        switch login {
        case .anonymous: return nil
        case .plain: return .all
        case .user(let name, let incarnation):
            guard let account = accounts[name], account.incarnation == incarnation else {
                return nil
            }
            return account.grants
        case .guest(let name, let origin):
            guard passwordlessBucket(named: name, from: origin) != nil else { return nil }
            return origin == .loopback ? .bucketUser(of: name) : .networkGuest(of: name)
        case .bucketUser(let name, let uuid):
            guard let bucket = bucket(named: name), bucket.uuid == uuid,
                !bucket.settings.password.isEmpty || bucket.settings.passwordless != .none
            else { return nil }
            return .bucketUser(of: name)
        }
    }

    /// The keys of the empty password, with which a client without a password completes SCRAM; nil
    /// before `deriveEmptyPassword`.
    var emptyPassword: StoredCredentials? { emptyPasswordBox.withLock { $0 } }

    /// Derives the keys of the empty password for every mechanism; takes some ten milliseconds.
    func deriveEmptyPassword() {
        let derived = StoredCredentials.derive(
            password: .empty,
            // An empty password is no secret.
            iterations: PasswordRules.iterationsMin,
            withSHA1: true
        ) { _ in
            environment.entropy.bytes(StoredCredentials.saltByteCount)
        }
        // Two connections may derive them at the same time: the first ones stay, because the second
        // half of an exchange has to use the keys of the first half.
        emptyPasswordBox.withLock { if $0 == nil { $0 = derived } }
    }
}

extension Grants {
    /// The grants of a client that logs in with the name of a bucket.
    static func bucketUser(of bucket: String) -> Grants {
        Grants(CollectionOfOne(RoleGrant(.bucketFullAccess, bucket: bucket)))
    }

    /// The grants of a client that uses a bucket without a password from another machine: it reads and
    /// writes documents, and receives no streams.
    static func networkGuest(of bucket: String) -> Grants {
        Grants([Role.dataReader, .dataWriter].map { RoleGrant($0, bucket: bucket) })
    }
}
