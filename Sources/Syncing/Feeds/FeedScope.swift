package import SyncWire

/// The documents that a feed may show: the channels of its user with their grants, or everything.
package struct FeedScope: Hashable, Sendable {
    /// A channel that the user had.
    package struct LostChannel: Hashable, Sendable {
        package let name: ChannelName
        /// The sequence at which the user lost it last.
        package let end: UInt64
        package let periods: [GrantPeriod]
    }

    /// A role that a user has or had, and what the role has.
    package struct HeldRole: Hashable, Sendable {
        package let role: Principal
        package let access: Access

        package init(_ role: Principal, _ access: Access) {
            self.role = role
            self.access = access
        }
    }

    /// A user's own row: `_user/jane` at the sequence of its last change.
    package struct PrincipalRow: Hashable, Sendable {
        package let id: [UInt8]
        package let sequence: UInt64
    }

    package let dialect: GatewayDialect
    package let channels: GrantSet<ChannelName>
    /// Nil for an administrator.
    package let principal: PrincipalRow?
    /// In order of names; empty in the dialect of 1.4, as `regainedChannels`.
    package let lostChannels: [LostChannel]
    /// The channels that the user had, lost and has again: a device may have documents of them that
    /// have left since.
    package let regainedChannels: Set<ChannelName>

    /// Whether a document in `names` is shown.
    func shows(_ names: [ChannelName]) -> Bool {
        channels[.all] != nil || names.contains { channels[$0] != nil }
    }

    /// Whether rows of principals in the log of `*` are shown; Sync Gateway 3 shows a user's own row only.
    var showsPrincipals: Bool { principal == nil && dialect == .first }

    /// The feed of an administrator.
    ///
    /// - Parameters:
    ///   - dialect: That of the database.
    ///   - filter: The channels that the request names, where `*` stands for all; nil for all.
    package init(administrator dialect: GatewayDialect, filter: Set<ChannelName>? = nil) {
        self.dialect = dialect
        let names = filter ?? [.all]
        channels = GrantSet(names.contains(.all) ? [.all] : names, at: 0)
        principal = nil
        lostChannels = []
        regainedChannels = []
    }

    /// The feed of a user.
    ///
    /// Names in the filter that the user does not have show nothing. `*` in the filter stands for all
    /// channels of the user.
    ///
    /// - Parameters:
    ///   - user: The user.
    ///   - access: What the user has.
    ///   - roles: The stored roles that the user has or had, for what was lost with them; not needed
    ///     in the dialect of 1.4.
    ///   - filter: The channels that the request names; nil for all.
    ///   - dialect: That of the database.
    package init(
        user: Principal,
        access: Access,
        roles: [HeldRole] = [],
        filter: Set<ChannelName>? = nil,
        dialect: GatewayDialect
    ) {
        self.dialect = dialect
        let id = "_user/" + user.key.externalName
        principal = PrincipalRow(id: [UInt8](id.utf8), sequence: user.sequence)
        let available = access.allChannels
        if let filter, !filter.contains(.all) {
            var channels = GrantSet<ChannelName>()
            for name in filter {
                let grants = [available[name], available[.all]].compactMap(\.self)
                if let first = grants.min() { channels.insert(name, at: first) }
            }
            self.channels = channels
        } else {
            channels = available
        }
        guard dialect == .third else {
            lostChannels = []
            regainedChannels = []
            return
        }
        let periods = Self.periods(of: user, access, roles)
        regainedChannels = Set(periods.keys.filter { available[$0] != nil })
        lostChannels = periods.filter {
            available[$0.key] == nil && filter?.contains($0.key) ?? true
        }
        .map { LostChannel(name: $0, end: $1.map(\.end).max() ?? 0, periods: $1) }
        .sorted { $0.name < $1.name }
    }

    /// The ended periods in which the user had channels, directly or by a role.
    private static func periods(
        of user: Principal,
        _ access: Access,
        _ roles: [HeldRole]
    ) -> [ChannelName: [GrantPeriod]] {
        var periods: [ChannelName: [GrantPeriod]] = [:]
        for entry in user.channelHistory.entries { periods[entry.name] = entry.periods }
        for held in roles {
            let name = held.role.key.name
            let ended = user.roleHistory.periods(of: name)
            let current = access.roles[name].map { [GrantPeriod(start: $0, end: .max)] } ?? []
            for period in ended + current {
                let lost = held.role.channelHistory.entries.flatMap { entry in
                    entry.periods.map { (entry.name, $0) }
                }
                let kept = held.access.channels.grants.map { grant in
                    (grant.name, GrantPeriod(start: grant.sequence, end: .max))
                }
                for (channel, other) in lost + kept {
                    guard let common = other.intersection(period), common.end < .max else {
                        continue
                    }
                    periods[channel, default: []].append(common)
                }
            }
        }
        return periods
    }
}

extension GrantPeriod {
    /// Nil if the periods have no sequence in common.
    fileprivate func intersection(_ other: GrantPeriod) -> GrantPeriod? {
        let first = max(start, other.start)
        let last = min(end, other.end)
        return first < last ? GrantPeriod(start: first, end: last) : nil
    }
}
