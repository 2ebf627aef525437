package import JSON
package import SyncWire

/// The decision of a sync function about a revision, for the user who writes it.
///
/// The rules are those of Sync Gateway (`channels/sync_runner.go`, `db/crud.go` at tag 1.5.0):
///
/// - Of an array, elements that are not strings count as absent, and so do nested arrays. Any other
///   value that is not a string counts as no name.
/// - An invalid channel name, or a role without `role:`, fails the whole run.
/// - Of several refusals the first one counts, and an exception after a `reject` outweighs it.
package enum SyncDecision: Equatable, Sendable {
    case accepted(SyncOutcome)
    case refused(Refusal)

    /// Decides the claims of `run` for `user`; nil is the administrator, for which every claim holds.
    package init(_ run: SyncRun, for user: SyncUser?, dialect: GatewayDialect) {
        var rejection: Refusal?
        var names = CollectedNames()
        for call in run.calls {
            switch call {
            case .claim(let claim):
                if let user, !user.satisfies(claim) {
                    self = .refused(rejection ?? Self.refusal(of: claim, dialect))
                    return
                }
            case .reject(let status, let reason):
                rejection = rejection ?? Self.rejection(status, reason)
            default: names.collect(call)
            }
        }
        switch run.end {
        case .returned: break
        case .forbidden(let reason): rejection = rejection ?? Refusal(403, reason)
        case .unauthorized(let reason): rejection = rejection ?? Refusal(401, reason)
        case .failed:
            self = .refused(Self.exception)
            return
        }
        switch names.outcome() {
        case .exception: self = .refused(Self.exception)
        case .invalidName: self = .refused(rejection ?? Refusal(500, "Error in JS sync function"))
        case .outcome(let outcome):
            self = rejection.map { .refused($0) } ?? .accepted(outcome)
        }
    }

    private static let exception = Refusal(500, "Exception in JS sync function")

    private static func refusal(of claim: SyncRun.Claim, _ dialect: GatewayDialect) -> Refusal {
        let reason =
            switch claim {
            case .user: "wrong user"
            case .role: "missing role"
            case .access: "missing channel access"
            case .administrator: "admin required"
            }
        return Refusal(403, dialect == .first ? reason : "sg \(reason)")
    }

    /// Nil if the first argument of `reject` is no status from 400 on.
    private static func rejection(_ status: JSONValue, _ reason: JSONValue) -> Refusal? {
        guard let number = status.double ?? status.string.flatMap(Double.init),
            let code = Int(exactly: number.rounded(.towardZero)), code >= 400
        else { return nil }
        let text =
            switch reason {
            case .string(let text): text
            case .null: ""
            default: String(decoding: JSONWriter.text { $0.value(reason) }, as: UTF8.self)
            }
        return Refusal(code, text)
    }
}

/// The user of a request, as claims are decided.
package struct SyncUser: Equatable, Sendable {
    /// Empty for the guest.
    package let name: String
    package let roles: Set<String>
    /// With those that roles give; `*` does not satisfy claims of other channels.
    package let channels: Set<ChannelName>

    package init(name: String, roles: Set<String>, channels: Set<ChannelName>) {
        self.name = name
        self.roles = roles
        self.channels = channels
    }

    func satisfies(_ claim: SyncRun.Claim) -> Bool {
        switch claim {
        case .user(let names): CollectedNames.texts(names).contains(name)
        case .role(let names): !roles.isDisjoint(with: CollectedNames.texts(names))
        case .access(let names):
            CollectedNames.texts(names).contains { text in
                ChannelName(text).map(channels.contains) ?? false
            }
        case .administrator: false
        }
    }
}

/// The effects of an accepted revision.
package struct SyncOutcome: Equatable, Sendable {
    /// Only `*` if the function named it among others.
    package var channels: Set<ChannelName> = []
    /// The channels that the document gives to each principal.
    package var access: [PrincipalKey: Set<ChannelName>] = [:]
    /// The roles that the document gives to each user.
    package var roles: [PrincipalKey: Set<String>] = [:]
    /// The document's expiry as the memcached protocol has it: seconds from now if they are at most
    /// 30 days, else Unix time; nil if the function set none.
    package var expiry: UInt32?

    package init() {}
}

/// The record of one run of a sync function: its calls in order, and how it ended.
///
/// The harness only records. It runs the function without knowledge of the user, so that one run of a
/// batch needs no round trip for each claim, and the process that runs JavaScript knows no user. The
/// host decides the claims (`SyncDecision`).
///
/// - Arguments are JSON; `undefined` is null.
package struct SyncRun: Equatable, Sendable {
    package enum Call: Equatable, Sendable {
        /// `channel(...)` with all arguments.
        case channel([JSONValue])
        case access(users: JSONValue, channels: JSONValue)
        case role(users: JSONValue, roles: JSONValue)
        case expiry(JSONValue)
        case reject(status: JSONValue, reason: JSONValue)
        case claim(Claim)
    }

    /// A requirement on the user at this point of the run.
    package enum Claim: Equatable, Sendable {
        /// The user has one of the names.
        case user(JSONValue)
        /// The user has one of the roles.
        case role(JSONValue)
        /// The user has one of the channels.
        case access(JSONValue)
        case administrator
    }

    package enum End: Equatable, Sendable {
        case returned
        /// `throw({forbidden: reason})`.
        case forbidden(String)
        /// `throw({unauthorized: reason})`.
        case unauthorized(String)
        /// Any other exception, or a limit of the harness; the text is for the log.
        case failed(String)
    }

    package let calls: [Call]
    package let end: End

    package init(_ calls: [Call], end: End = .returned) {
        self.calls = calls
        self.end = end
    }

    /// The run of the function that a database without one has: `channel(doc.channels)`.
    ///
    /// It refuses a document with an invalid name, which is an exception of a function in JavaScript.
    package static func withoutFunction(channels: JSONValue?) -> SyncRun {
        let value = channels ?? .null
        if let name = CollectedNames.texts(value).first(where: { ChannelName($0) == nil }) {
            let refusal = RequestRefusal.badChannel(name)
            let status = JSONValue.integer(refusal.status)
            return SyncRun([.reject(status: status, reason: .string(refusal.reason))])
        }
        return SyncRun([.channel([value])])
    }
}
