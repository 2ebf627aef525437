package import SyncWire

/// The rules by which a database accepts changes of principals.
package struct PrincipalRules: Hashable, Sendable {
    package static let passwordCharactersMin = 3

    package let dialect: GatewayDialect
    package let allowsEmptyPassword: Bool

    package init(dialect: GatewayDialect, allowsEmptyPassword: Bool = false) {
        self.dialect = dialect
        self.allowsEmptyPassword = allowsEmptyPassword
    }

    /// The kind of a request about a principal.
    package enum Method: Sendable {
        /// `POST` of a new principal.
        case create
        /// `PUT` under a name.
        case replace
    }

    package enum Decision: Equatable, Sendable {
        /// Nothing differs: the principal needs no sequence, and the answer is 200.
        case unchanged
        case change(PrincipalChange)
        case refused(Refusal)
    }

    /// Decides which principal a request is about, by the name in its path, or in its body for `POST`.
    ///
    /// - Throws: `Refusal` 400 if the name is missing, invalid or another one than in the path.
    package func key(
        of update: PrincipalUpdate,
        _ kind: PrincipalKey.Kind,
        path: String?
    ) throws(Refusal) -> PrincipalKey {
        guard let name = path ?? update.name else { throw Refusal(400, "Missing name property") }
        if let other = update.name, other != name {
            throw Refusal(400, "Name mismatch (can't change name)")
        }
        let key = PrincipalKey(kind, externalName: name)
        guard PrincipalKey.isValid(name: key.name), kind == .user || !key.name.isEmpty else {
            throw Refusal(400, "Invalid name \"\(name)\"")
        }
        return key
    }

    /// Decides a `PUT` or `POST`.
    ///
    /// In the dialect of 1.4, a member that is absent empties what it names, except the password; in
    /// that of 3, it keeps it.
    /// The guest exists always: `existing` is `Principal.defaultGuest` if none is stored.
    package func decide(
        _ update: PrincipalUpdate,
        for key: PrincipalKey,
        existing: Principal?,
        access: Access?,
        method: Method
    ) -> Decision {
        if existing != nil, method == .create { return .refused(Refusal(409, "Already exists")) }
        do throws(Refusal) {
            try validatePassword(of: update, key, isNew: existing == nil)
            try validateDerived(update, access)
            var change = PrincipalChange(existing ?? Principal(key), isNew: existing == nil)
            if key.kind == .user {
                change.password = update.password
                change.principal.email = email(of: update, existing)
                change.principal.isDisabled =
                    update.isDisabled ?? (keepsAbsent ? existing?.isDisabled : nil) ?? false
                if let roles = update.roles ?? (keepsAbsent ? nil : []) {
                    change.roles = try Self.roleNames(roles)
                }
            }
            if let channels = update.channels ?? (keepsAbsent ? nil : []) {
                change.channels = try Self.channelNames(channels)
            }
            return change.hasEffect ? .change(change) : .unchanged
        } catch {
            return .refused(error)
        }
    }

    /// Decides a `PATCH`; a principal that does not exist is refused as missing.
    package func decide(_ patch: PrincipalPatch, existing: Principal?) -> Decision {
        guard let existing else { return .refused(.missing) }
        do throws(Refusal) {
            var change = PrincipalChange(existing, isNew: false)
            let channels = Set(existing.channels.names)
                .subtracting(try Self.channelNames(patch.removedChannels))
            change.channels = channels.union(try Self.channelNames(patch.addedChannels))
            if existing.key.kind == .user {
                let roles = Set(existing.roles.names)
                    .subtracting(try Self.roleNames(patch.removedRoles))
                change.roles = roles.union(try Self.roleNames(patch.addedRoles))
            }
            return change.hasEffect ? .change(change) : .unchanged
        } catch {
            return .refused(error)
        }
    }

    private var keepsAbsent: Bool { dialect == .third }

    /// - Throws: `Refusal` 400 if the password is too short, or missing and needed.
    private func validatePassword(
        of update: PrincipalUpdate,
        _ key: PrincipalKey,
        isNew: Bool
    ) throws(Refusal) {
        guard key.kind == .user, isNew || update.password != nil else { return }
        let prefix =
            keepsAbsent ? "Error \(isNew ? "creating user" : "updating user/role"): " : ""
        let password = update.password ?? ""
        if password.isEmpty {
            if allowsEmptyPassword { return }
            throw Refusal(400, prefix + "Empty passwords are not allowed ")
        }
        // Sync Gateway counts bytes.
        if password.utf8.count < Self.passwordCharactersMin {
            throw Refusal(400, prefix + "Passwords must be at least three 3 characters")
        }
    }

    /// - Throws: `Refusal` 400 in the dialect of 3 if the request has other derived members than the
    ///   principal.
    private func validateDerived(_ update: PrincipalUpdate, _ access: Access?) throws(Refusal) {
        guard keepsAbsent else { return }
        let channels = Set(access?.allChannels.names.map(\.description) ?? [])
        if let given = update.derivedChannels, !given.isEmpty, Set(given) != channels {
            throw Refusal(400, "all_channels is read-only")
        }
        let roles = Set(access?.roles.names ?? [])
        if let given = update.derivedRoles, !given.isEmpty, Set(given) != roles {
            throw Refusal(400, "roles is read-only")
        }
    }

    /// An invalid address counts as absent in a request that keeps what is absent, as in the original.
    private func email(of update: PrincipalUpdate, _ existing: Principal?) -> String {
        let kept = existing?.email ?? ""
        guard let email = update.email else { return keepsAbsent ? kept : "" }
        return email.isEmpty || Self.isEmail(email) ? email : kept
    }

    /// Whether `text` is `NAME@HOST` with ASCII letters, digits and few other characters.
    private static func isEmail(_ text: String) -> Bool {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty, parts[1].utf8.count >= 2,
            !"-+.%".contains(parts[1].first ?? "-")
        else { return false }
        return PrincipalKey.isValid(name: String(parts[0]))
            && PrincipalKey.isValid(name: String(parts[1])) && !parts[1].contains("+")
            && !text.contains("%")
    }

    /// - Throws: `Refusal` 400 if a text is no name of a channel.
    private static func channelNames(_ texts: [String]) throws(Refusal) -> Set<ChannelName> {
        var names: Set<ChannelName> = []
        for text in texts {
            guard let name = ChannelName(text) else {
                throw Refusal(400, "Illegal channel name \"\(text)\"")
            }
            names.insert(name)
        }
        return names
    }

    /// - Throws: `Refusal` 400 if a text is no name of a role.
    private static func roleNames(_ texts: [String]) throws(Refusal) -> Set<String> {
        if let wrong = texts.first(where: { $0.isEmpty || !PrincipalKey.isValid(name: $0) }) {
            throw Refusal(400, "Invalid role name \"\(wrong)\"")
        }
        return Set(texts)
    }
}

/// An accepted change of a principal, before its sequence is allocated.
package struct PrincipalChange: Equatable, Sendable {
    /// The new password; the service hashes it before it calls `principal(at:credentials:)`.
    package internal(set) var password: String?
    package let isNew: Bool
    var principal: Principal
    /// Nil keeps the channels.
    var channels: Set<ChannelName>?
    /// Nil keeps the roles.
    var roles: Set<String>?
    private let original: Principal

    init(_ principal: Principal, isNew: Bool) {
        self.principal = principal
        self.isNew = isNew
        original = principal
    }

    /// Whether all sessions of the user end, because the password was set.
    package var endsSessions: Bool { password != nil && !isNew }

    var hasEffect: Bool {
        isNew || password != nil || principal != original
            || channels.map { $0 != Set(original.channels.names) } ?? false
            || roles.map { $0 != Set(original.roles.names) } ?? false
    }

    /// Makes the principal to store; the service then records the losses (`Principal.recordLosses`).
    ///
    /// - Parameters:
    ///   - sequence: A new one: the sequence of the principal's row, and of its new grants.
    ///   - credentials: Those of `password`; empty for the empty password.
    /// - Returns: The principal with the change.
    package func principal(at sequence: UInt64, credentials: [UInt8]) -> Principal {
        var changed = principal
        changed.sequence = sequence
        if let channels { changed.channels.replace(with: channels, at: sequence) }
        if let roles { changed.roles.replace(with: roles, at: sequence) }
        if password != nil {
            changed.credentials = credentials
            changed.passwordStamp = sequence
        }
        return changed
    }
}
