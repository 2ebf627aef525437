internal import Bytes
internal import Credentials
internal import Seams
package import SyncWire
package import Syncing

/// Users and roles, as administrators see and change them.
extension SyncDatabase {
    package enum PrincipalOutcome: Hashable, Sendable {
        case created
        case changed
        case unchanged
        case refused(Refusal)
    }

    private var rules: PrincipalRules {
        PrincipalRules(
            dialect: dialect,
            allowsEmptyPassword: configuration.principals.allowsEmptyPassword
        )
    }

    /// A principal with what it has; nil if there is none.
    package func principal(_ key: PrincipalKey) async -> (principal: Principal, access: Access)? {
        guard let found = await storedPrincipal(key)?.principal else { return nil }
        return (found, await access(of: found))
    }

    /// The names of all users or roles as administrators write them, in order.
    package func principalNames(_ kind: PrincipalKey.Kind) async -> [String] {
        let prefix = PrincipalKey(kind, "").sideKey
        return await stores.sides.keys(withPrefix: prefix)
            .map { PrincipalKey(kind, String($0.dropFirst(prefix.count))).externalName }
    }

    /// `PUT` and `POST` of a user or a role.
    ///
    /// - Parameters:
    ///   - update: The body.
    ///   - kind: User or role.
    ///   - path: The name in the path; nil for `POST`.
    ///   - method: Whether the principal must be new.
    /// - Returns: The outcome with the key, which a refused body may lack.
    package func change(
        _ update: PrincipalUpdate,
        _ kind: PrincipalKey.Kind,
        path: String?,
        method: PrincipalRules.Method
    ) async -> PrincipalOutcome {
        let key: PrincipalKey
        do {
            key = try rules.key(of: update, kind, path: path)
        } catch {
            return .refused(error)
        }
        return await change(key) { rules, existing, access in
            rules.decide(update, for: key, existing: existing, access: access, method: method)
        }
    }

    /// `PATCH` of a user or a role.
    package func change(_ patch: PrincipalPatch, _ key: PrincipalKey) async -> PrincipalOutcome {
        await change(key) { rules, existing, _ in rules.decide(patch, existing: existing) }
    }

    /// Writes the users and roles of the configuration, as each start does.
    ///
    /// A password counts at once; its credentials are derived later, since that takes long.
    ///
    /// - Throws: `Refusal` if a principal is invalid, or there is no room.
    package func writeConfiguredPrincipals() async throws(Refusal) {
        for role in configuration.principals.roles { try await write(role, .role) }
        for user in configuration.principals.users { try await write(user, .user) }
    }

    /// - Throws: `Refusal`, as `writeConfiguredPrincipals`.
    private func write(
        _ configured: PrincipalConfiguration,
        _ kind: PrincipalKey.Kind
    ) async throws(Refusal) {
        let update = PrincipalUpdate(configured, kind)
        let key = PrincipalKey(kind, externalName: configured.name)
        let outcome = await change(key, derivesLater: true) { rules, existing, access in
            rules.decide(update, for: key, existing: existing, access: access, method: .replace)
        }
        if case .refused(let refusal) = outcome { throw refusal }
    }

    private func change(
        _ key: PrincipalKey,
        derivesLater: Bool = false,
        _ decide: (PrincipalRules, Principal?, Access?) -> PrincipalRules.Decision
    ) async -> PrincipalOutcome {
        while true {
            let stored = await storedPrincipal(key)
            let existing = stored?.principal ?? (key == .guest ? .defaultGuest : nil)
            var access: Access?
            if let existing { access = await self.access(of: existing) }
            switch decide(rules, existing, access) {
            case .refused(let refusal): return .refused(refusal)
            case .unchanged: return .unchanged
            case .change(let change):
                let credentials =
                    derivesLater ? [] : await credentials(of: change.password ?? "")
                do {
                    let isStored = try await store(
                        change,
                        key,
                        credentials: credentials,
                        access: access,
                        version: stored?.version
                    )
                    // Another request changed the principal meanwhile.
                    guard isStored else { continue }
                } catch {
                    return .refused(error)
                }
                if change.password != nil { unhashed[key] = nil }
                if derivesLater, let password = change.password, !password.isEmpty {
                    unhashed[key] = Array(password.utf8)
                    executor.spawn { [self] in await deriveCredentials(of: key, password) }
                }
                if change.endsSessions { await deleteSessions(of: key.name) }
                return change.isNew ? .created : .changed
            }
        }
    }

    /// Stores the credentials of a password that counts already.
    private func deriveCredentials(of key: PrincipalKey, _ password: String) async {
        let credentials = await credentials(of: password)
        while unhashed[key] == Array(password.utf8) {
            guard let stored = await storedPrincipal(key) else { break }
            var principal = stored.principal
            principal.credentials = credentials
            let content = SideContent.plain(principal.encoded)
            let written = try? await stores.sides.put(
                content,
                at: key.sideKey,
                replacing: stored.version
            )
            // Without room the password stays as it is: it counts until the end of the process.
            if written == .some(nil) { continue }
            if written != nil { unhashed[key] = nil }
            return
        }
    }

    /// - Throws: `Refusal` 507 without room.
    private func store(
        _ change: PrincipalChange,
        _ key: PrincipalKey,
        credentials: [UInt8],
        access: Access?,
        version: UInt64?
    ) async throws(Refusal) -> Bool {
        let grants = await stores.channels.grants(to: key)
        let content = SideContent.numbered(key) { sequence in
            var principal = change.principal(at: sequence, credentials: credentials)
            if let access {
                let now = Access(of: principal, documents: grants)
                principal.recordLosses(from: access, to: now, at: sequence)
            }
            return principal.encoded
        }
        return try await stores.sides.put(content, at: key.sideKey, replacing: version ?? 0) != nil
    }

    /// - Returns: Whether the principal existed.
    package func delete(_ key: PrincipalKey) async -> Bool {
        guard let stored = await storedPrincipal(key) else { return false }
        let isRemoved = await stores.sides.remove(key.sideKey, version: stored.version)
        if isRemoved, key.kind == .user { await deleteSessions(of: key.name) }
        // Those of the user end, and those of users with the role have less to show.
        interruptFeeds()
        return isRemoved
    }

    // MARK: Passwords

    /// Derives what is stored of a password, on the lane for passwords; empty for the empty one.
    private func credentials(of password: String) async -> [UInt8] {
        if password.isEmpty { return [] }
        let (iterations, entropy) = (passwords.rules.iterations, environment.entropy)
        return await withUnsafeContinuation { waiter in
            passwordLane.post {
                let derived = password.withView { password in
                    StoredCredentials.derive(password: password, iterations: iterations) { _ in
                        entropy.bytes(StoredCredentials.saltByteCount)
                    }
                }
                waiter.resume(returning: Array(derived.text.utf8))
            }
        }
    }
}

extension PrincipalUpdate {
    init(_ configured: PrincipalConfiguration, _ kind: PrincipalKey.Kind) {
        self.init()
        channels = configured.channels
        guard kind == .user else { return }
        password = configured.password
        email = configured.email
        isDisabled = configured.isDisabled
        roles = configured.roles
    }
}
