/// When principals changed last, so that what was computed of one is used until it changes.
///
/// Memory: one entry for each of the principals that changed last, `changesMax` at most.
package struct AccessVersions: Sendable {
    /// Beyond it, all entries are forgotten, and every principal counts as changed.
    package static let changesMax = 10_000

    /// Grows with each change; taken before a principal is read.
    package private(set) var newest: UInt64 = 0
    /// Everything that was read before it counts as changed.
    private var floor: UInt64 = 0
    private var changes: [PrincipalKey: UInt64] = [:]

    package init() {}

    /// Records that a principal changed, or what documents grant to it.
    package mutating func recordChange(of principal: PrincipalKey) {
        newest += 1
        if changes.count >= Self.changesMax {
            changes = [:]
            floor = newest
        }
        changes[principal] = newest
    }

    /// Whether one of the principals changed after `version`.
    package func hasChanged(_ principals: [PrincipalKey], since version: UInt64) -> Bool {
        version < floor || principals.contains { changes[$0, default: 0] > version }
    }
}

/// The channels and roles that a principal has: what administrators, documents and roles give.
///
/// - Every principal has the channel `!` from the beginning.
/// - Of several grants the earliest counts. A channel of a role counts from the later one of the two
///   grants on: the user's role, and the role's channel.
package struct Access: Hashable, Sendable {
    /// Without those that roles give: what a session shows as `userCtx.channels`.
    package private(set) var channels: GrantSet<ChannelName>
    package private(set) var roles = GrantSet<String>()
    /// With those that roles give: `all_channels`, and what feeds follow.
    package private(set) var allChannels: GrantSet<ChannelName>

    /// - Parameters:
    ///   - principal: The user or role.
    ///   - documents: What documents give.
    ///   - role: The stored role of a name; a role that is not stored gives nothing.
    package init(
        of principal: Principal,
        documents: GrantIndex,
        role: (String) -> Principal? = { _ in nil }
    ) {
        channels = principal.channels
        channels.formUnion(documents.channels(of: principal.key))
        channels.insert(.everyone, at: 1)
        allChannels = channels
        guard principal.key.kind == .user else { return }
        roles = principal.roles
        roles.formUnion(documents.roles(of: principal.key))
        for grant in roles.grants {
            guard let stored = role(grant.name) else { continue }
            let given = Access(of: stored, documents: documents).channels
            allChannels.formUnion(given, notBefore: grant.sequence)
        }
    }

    /// Whether a revision in `channels` may be read; one without channels only with `*`.
    package func permits(reading channels: some Collection<ChannelName>) -> Bool {
        allChannels[.all] != nil || channels.contains { allChannels[$0] != nil }
    }

    /// The user of a sync function's claims.
    package func syncUser(_ key: PrincipalKey) -> SyncUser {
        SyncUser(name: key.name, roles: Set(roles.names), channels: Set(allChannels.names))
    }
}
