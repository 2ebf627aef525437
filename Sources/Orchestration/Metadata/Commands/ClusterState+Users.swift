package import Vocabulary

/// Creates, changes and deletes local users.
///
/// - A role is granted for a bucket that exists. A deleted bucket takes its grants along, so that a
///   new bucket of that name begins without any.
/// - The administrator's name is not a user's.
extension ClusterState {
    /// The local user with exactly this id; nil if there is none.
    package func user(_ id: String) -> LocalUser? {
        users.first { $0.hasID(id) }
    }

    /// The grants of the administrator or a local user; nil if there is no such user.
    package func grants(ofUser id: String) -> Grants? {
        if let administrator, administrator.name.utf8.elementsEqual(id.utf8) { return .all }
        return user(id)?.roles
    }

    /// Why a user cannot be set so; nil if it can.
    ///
    /// `put` calls it when the entry is applied, because two requests that each pass on arrival can
    /// exceed a limit together, or name a bucket that is deleted meanwhile.
    package func refusal(of change: UserChange) -> ClusterRefusal? {
        guard isProvisioned else { return .notInitialised }
        guard Self.flaw(ofUserName: change.id) == nil,
            change.name.utf8.count <= Limits.userNameBytesMax,
            change.password?.credentials.count ?? 0 <= Limits.userCredentialsBytesMax
        else { return .userImpossible }
        guard administrator.map({ $0.name.utf8.elementsEqual(change.id.utf8) }) != true else {
            return .userExists
        }
        guard change.roles.roles.allSatisfy(isGrantable) else { return .bucketUnknown }
        let old = user(change.id)
        guard change.was.permits(old?.basis) else { return .changedMeanwhile }
        guard let new = user(after: change) else { return .userUnknown }
        if old == nil, users.count >= Limits.usersMax { return .tooManyUsers }
        let before = users.reduce(0) { $0 + $1.byteCount }
        let after = before - (old?.byteCount ?? 0) + new.byteCount
        // A smaller user passes also if a later release allowed more than this one.
        return after <= max(Limits.usersBytesMax, before) ? nil : .tooManyUsers
    }

    /// The flaw of a text as a user's or the administrator's name; nil if it can be one.
    package static func flaw(ofUserName name: String) -> UserNameFlaw? {
        if name.isEmpty { return .empty }
        if name.utf8.count > Limits.userIDBytesMax { return .tooLong }
        let isBanned = name.utf8.contains { byte in
            byte < 0x20 || byte == 0x7f || UserNameFlaw.banned.utf8.contains(byte)
        }
        return isBanned ? .bannedCharacter : nil
    }

    /// Whether the grant's bucket exists; true if the grant names none.
    package func isGrantable(_ grant: RoleGrant) -> Bool {
        grant.bucket.map { bucket(named: $0) != nil } ?? true
    }

    mutating func put(_ change: UserChange) -> ClusterOutcome {
        if let refusal = refusal(of: change) { return .refused(refusal) }
        guard let new = user(after: change) else { return .refused(.userUnknown) }
        guard new != user(change.id) else { return .applied([]) }
        users.removeAll { $0.hasID(change.id) }
        let place = users.firstIndex { !$0.id.utf8.lexicographicallyPrecedes(new.id.utf8) }
        users.insert(new, at: place ?? users.count)
        return .applied([.usersChanged([change.id])])
    }

    mutating func delete(user id: String) -> ClusterOutcome {
        guard user(id) != nil else { return .refused(.userUnknown) }
        users.removeAll { $0.hasID(id) }
        return .applied([.usersChanged([id])])
    }

    mutating func change(_ change: PasswordChange) -> ClusterOutcome {
        guard let place = users.firstIndex(where: { $0.hasID(change.id) }) else {
            return .refused(.userUnknown)
        }
        guard users[place].credentials == change.was else { return .refused(.changedMeanwhile) }
        guard change.password.credentials.count <= Limits.userCredentialsBytesMax else {
            return .refused(.userImpossible)
        }
        users[place].credentials = change.password.credentials
        users[place].passwordChangedSeconds = change.password.changedSeconds
        return .applied([.usersChanged([change.id])])
    }

    /// Removes the roles that are granted for a deleted bucket.
    ///
    /// - Returns: The ids of the users that lost roles.
    mutating func revokeGrants(forBucket name: String) -> [String] {
        var changed: [String] = []
        for place in users.indices {
            let left = users[place].grants.filter { $0.bucket != name }
            guard left.count < users[place].grants.count else { continue }
            users[place].roles = Grants(left)
            changed.append(users[place].id)
        }
        return changed
    }

    /// Nil if a new user has no password.
    private func user(after change: UserChange) -> LocalUser? {
        let old = user(change.id)
        guard old != nil || change.password != nil else { return nil }
        var user = old ?? LocalUser()
        user.id = change.id
        user.name = change.name
        user.roles = change.roles
        if let password = change.password {
            user.credentials = password.credentials
            user.passwordChangedSeconds = password.changedSeconds
        }
        return user
    }
}

/// The flaw of a text as a user's name, as in Couchbase Server.
package enum UserNameFlaw: Hashable, Sendable {
    case empty
    case tooLong
    /// A control character, or one of `banned`.
    case bannedCharacter

    package static let banned = "()<>@,;:\\\"/[]?={}"
}

/// Commands that change users, the administrator or members need a login with a permission.
///
/// Every node checks it when it applies the command, so a node that proposes what its login may not
/// order changes nothing. A node that is in an attacker's hands can name any login.
extension ClusterState {
    /// The permission that the login of a command needs; nil if the command needs no login.
    ///
    /// Rules of the cluster need none: the automatic failover, the end of a join, the removal of nodes
    /// that did not join in time or that a new epoch left behind, and the end of what was permitted.
    package func permission(for command: ClusterCommand) -> Permission? {
        guard isProvisioned else { return nil }
        switch command {
        // A node that was provisioned before it listens announces itself only then.
        case .addNode where nodes.isEmpty: return nil
        case .setAdministrator, .putUser, .deleteUser, .changePassword, .addNode,
            .changeAuthorities:
            return .securityWrite
        case .removeNode(let number):
            let membership = node(number: number)?.membership
            return membership == .joining || membership == .leftBehind ? nil : .poolsWrite
        case .setNodeState(let change):
            return node(number: change.number)?.membership == .joining ? nil : .poolsWrite
        case .failOver(let step):
            // The end of a graceful failover was permitted at its start.
            let isEnd = rebalance?.kind == .gracefulFailover && rebalance?.ejected == step.nodes
            return (step.isAutomatic || isEnd) && !step.mayLose ? nil : .poolsWrite
        case .startRebalance: return .poolsWrite
        default: return nil
        }
    }

    /// Whether the administrator or a local user has a permission.
    ///
    /// - Parameters:
    ///   - login: Its name; nil has no permission.
    ///   - permission: The permission.
    /// - Returns: Whether it has it, by its present roles.
    package func allows(_ login: String?, _ permission: Permission) -> Bool {
        login.flatMap(grants(ofUser:))?.allows(permission) ?? false
    }

    /// Whether two names have the same bytes: other names that look alike are those of other users.
    private func isSame(_ name: String, _ login: String?) -> Bool {
        login.map { $0.utf8.elementsEqual(name.utf8) } ?? false
    }

    func mayApply(_ envelope: ClusterEnvelope) -> Bool {
        guard let permission = permission(for: envelope.command) else { return true }
        switch envelope.command {
        // The record keeps the login, for the removal of nodes at the end.
        case .startRebalance(let record) where record.login != envelope.login: return false
        // Every user may change its own password.
        case .changePassword(let change) where isSame(change.id, envelope.login): return true
        default: return allows(envelope.login, permission)
        }
    }
}
