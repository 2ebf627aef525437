internal import JSON
internal import SyncWire
package import Syncing

/// The author of a request, with the channels that it may see.
package struct Requester: Sendable {
    /// Nil for the administrator.
    package let user: Principal?
    package let access: Access?

    package static let administrator = Requester(user: nil, access: nil)

    init(user: Principal?, access: Access?) {
        self.user = user
        self.access = access
    }

    package var isAdministrator: Bool { user == nil }

    /// Whether a revision in these channels is for the requester.
    func mayRead(_ channels: [String]) -> Bool {
        guard let access else { return true }
        return access.permits(reading: channels.compactMap { ChannelName($0) })
    }

    /// Why a list of named documents lacks one that is not for the requester; Sync Gateway says so only here that the
    /// guest may log in.
    var listRefusal: Refusal {
        user?.key == .guest ? Refusal(401, "login required") : Refusal(403, "forbidden")
    }

    /// Filters `channels` by what the requester has; nil if none lets it see the document.
    func visible(_ channels: [String]) -> [String]? {
        guard let access, access.allChannels[.all] == nil else { return channels }
        let names = channels.filter { name in
            ChannelName(name).map { access.allChannels[$0] != nil } ?? false
        }
        return names.isEmpty ? nil : names
    }

    /// The author of what the requester writes; nil for the administrator.
    var author: RevisionAuthor? {
        guard let user, let access else { return nil }
        let context = JSONWriter.text { writer in
            writer.object { writer in
                writer.array("channels") { writer in
                    for name in access.allChannels.names { writer.value(name.description) }
                }
                writer.member("name", user.key.name)
                writer.object("roles") { writer in
                    for grant in access.roles.grants { writer.member(grant.name, grant.sequence) }
                }
            }
        }
        return RevisionAuthor(access.syncUser(user.key), context: context)
    }
}

extension SyncDatabase {
    /// Loads a user; nil if there is none of that name.
    ///
    /// The guest exists always.
    package func requester(_ key: PrincipalKey) async -> Requester? {
        guard let user = await storedPrincipal(key)?.principal ?? Self.implicitUser(key) else {
            return nil
        }
        return Requester(user: user, access: await access(of: user))
    }

    private static func implicitUser(_ key: PrincipalKey) -> Principal? {
        key == .guest ? .defaultGuest : nil
    }

    /// Loads the access of a principal, with the roles that are stored.
    func access(of principal: Principal) async -> Access {
        let grants = await stores.channels.grants(to: principal.key)
        let own = Access(of: principal, documents: grants)
        var roles: [String: Principal] = [:]
        for grant in own.roles.grants {
            let key = PrincipalKey(.role, grant.name)
            roles[grant.name] = await storedPrincipal(key)?.principal
        }
        return roles.isEmpty
            ? own : Access(of: principal, documents: grants) { roles[$0] }
    }

    /// A principal with the version of its side document.
    func storedPrincipal(_ key: PrincipalKey) async -> (principal: Principal, version: UInt64)? {
        guard let side = await stores.sides.get(key.sideKey), let found = Principal(stored: side)
        else { return nil }
        return (found, side.version)
    }
}
