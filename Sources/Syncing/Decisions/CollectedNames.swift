internal import Bytes
internal import JSON
internal import SyncWire

/// The names that the calls of a sync function have, before they are checked.
///
/// They are checked after the run: an invalid name fails a run that no claim has refused before.
struct CollectedNames {
    enum Result {
        case outcome(SyncOutcome)
        /// A channel has an invalid name, or a role no `role:`.
        case exception
        /// A principal has an invalid name.
        case invalidName
    }

    private var channels: [String] = []
    private var access: [String: [String]] = [:]
    private var roles: [String: [String]] = [:]
    private var expiry: UInt32?

    mutating func collect(_ call: SyncRun.Call) {
        switch call {
        case .channel(let arguments): channels += arguments.flatMap(Self.texts)
        case .access(let users, let channels): Self.add(channels, to: users, of: &access)
        case .role(let users, let names): Self.add(names, to: users, of: &roles)
        case .expiry(let value): expiry = Self.expirySeconds(value) ?? expiry
        case .reject, .claim: break
        }
    }

    func outcome() -> Result {
        var outcome = SyncOutcome()
        guard let channels = Self.names(channels) else { return .exception }
        outcome.channels = channels.contains(.all) ? [.all] : channels
        outcome.expiry = expiry
        var hasInvalidName = false
        for (user, texts) in access {
            guard let names = Self.names(texts) else { return .exception }
            let key = PrincipalKey(accessName: user)
            hasInvalidName = hasInvalidName || key == nil
            // Only an administrator gives the channel of all documents.
            if let key { outcome.access[key] = names.subtracting([.all]) }
        }
        for (user, texts) in roles {
            var names: Set<String> = []
            for text in texts {
                guard text.utf8.starts(with: PrincipalKey.rolePrefix.utf8),
                    case let name = String(text.dropFirst(PrincipalKey.rolePrefix.count)),
                    let channel = ChannelName(name)
                else { return .exception }
                if channel == .all { continue }
                hasInvalidName = hasInvalidName || !PrincipalKey.isValid(name: name)
                names.insert(name)
            }
            let key = PrincipalKey(accessName: user)
            hasInvalidName = hasInvalidName || key == nil
            if let key { outcome.roles[key] = names }
        }
        outcome.access = outcome.access.filter { !$0.value.isEmpty }
        outcome.roles = outcome.roles.filter { !$0.value.isEmpty }
        return hasInvalidName ? .invalidName : .outcome(outcome)
    }

    /// The strings of an argument: of a string itself, of an array those among its elements.
    static func texts(_ value: JSONValue) -> [String] {
        switch value {
        case .string(let text): [text]
        case .array(let elements): elements.compactMap(\.string)
        default: []
        }
    }

    /// The expiry that a sync function sets: a number, a number as text, or a date of RFC 3339.
    ///
    /// Nil for anything else, as in Sync Gateway (`base/util.go`, `ReflectExpiry`).
    private static func expirySeconds(_ value: JSONValue) -> UInt32? {
        guard case .string(let text) = value else {
            return value.double.flatMap { UInt32(exactly: $0.rounded(.towardZero)) }
        }
        if let number = Int32(text) { return UInt32(exactly: number) }
        return text.withView { CalendarTime.unixSeconds(iso: $0) }.flatMap { UInt32(exactly: $0) }
    }

    private static func add(
        _ values: JSONValue,
        to users: JSONValue,
        of grants: inout [String: [String]]
    ) {
        let names = texts(values)
        guard !names.isEmpty else { return }
        for user in texts(users) { grants[user, default: []] += names }
    }

    /// Nil if one of the texts is no name of a channel.
    private static func names(_ texts: [String]) -> Set<ChannelName>? {
        var names: Set<ChannelName> = []
        for text in texts {
            guard let name = ChannelName(text) else { return nil }
            names.insert(name)
        }
        return names
    }
}
