internal import Bytes
internal import Vocabulary
internal import Wire

/// The privileges of a connection's client, at a revision of the users.
struct ConnectionAccess {
    /// 0 if nothing is cached.
    var revision: UInt64 = 0
    /// In the selected bucket; empty without one.
    var privileges: Privileges = []
    /// False after the user was deleted.
    var isUserKnown = true
    /// Whether the client has no login.
    ///
    /// Not in `LoginNotes`, whose methods get the connection: each turn would check for exclusive access.
    var isStranger = false
}

extension Connection {
    /// Whether the client may execute a command now.
    ///
    /// The data path: one load and one comparison unless users have changed.
    @inline(__always)
    func isPermitted(_ command: Command) -> Bool {
        if access.revision != accessRevision.load() { refreshAccess() }
        let access = access
        return access.isUserKnown && command.requirement.isMet(by: access.privileges)
    }

    /// Whether the client may still receive changes.
    var mayStream: Bool {
        if access.revision != accessRevision.load() { refreshAccess() }
        // The streams of a deleted bucket end with a message of their own.
        return bucket == nil || access.privileges.contains(.dcpProducer)
    }

    /// Whether the client may have the configuration of the selected bucket, or the cluster's.
    var mayReceiveConfiguration: Bool {
        if access.revision != accessRevision.load() { refreshAccess() }
        return access.isUserKnown && (bucket == nil || !access.privileges.isEmpty)
    }

    @inline(never)
    private func refreshAccess() {
        // Read first: a change after it leads to another refresh.
        let revision = accessRevision.load()
        let grants = service.grants(of: login)
        let privileges: Privileges
        if login == .plain {
            privileges = .all
        } else if let grants, let bucket {
            privileges = grants.privileges(inBucket: bucket.name)
        } else {
            privileges = []
        }
        var isUserKnown = true
        if case .user = login { isUserKnown = grants != nil }
        access = ConnectionAccess(
            revision: revision,
            privileges: privileges,
            isUserKnown: isUserKnown,
            isStranger: access.isStranger
        )
    }

    /// Refuses a command for which the client lacks a privilege.
    func refuseAccess(_ request: CommandContext) -> Execution {
        let command = request.command.opcode.name
        let user = login.name.map { "user \"\($0)\"" } ?? "this client"
        let reason: String
        if !access.isUserKnown {
            reason = "The \(user) was deleted. Log in again."
        } else {
            let place = bucket.map { "bucket \"\($0.name)\"" } ?? "no bucket"
            reason =
                "The command \(command) needs the privilege \(request.command.requirement.text), "
                + "which \(user) does not have in \(place)."
        }
        return refuse(request, .accessDenied, reason)
    }

    /// Whether the client may select a bucket: it has a privilege there.
    func mayUse(_ bucket: OpenBucket) -> Bool { mayUse(bucketNamed: bucket.name) }

    /// Whether the client may select a bucket that may not be open on this node.
    func mayUse(bucketNamed name: String) -> Bool {
        switch login {
        case .anonymous, .plain: false
        case .guest(let own, _), .bucketUser(let own, _):
            // If the bucket is not open, no privilege can be determined.
            own == name && (service.grants(of: login) != nil || service.bucket(named: name) == nil)
        case .user:
            service.grants(of: login).map { !$0.privileges(inBucket: name).isEmpty } ?? false
        }
    }
}
