/// The grants of one document to principals, each with the sequence at which the document began to.
///
/// It is the content of `access` and `role_access` of the document's metadata.
package struct DocumentGrants: Hashable, Sendable {
    package private(set) var channels: [PrincipalKey: GrantSet<ChannelName>] = [:]
    package private(set) var roles: [PrincipalKey: GrantSet<String>] = [:]

    package init() {}

    package init(
        channels: [PrincipalKey: GrantSet<ChannelName>],
        roles: [PrincipalKey: GrantSet<String>]
    ) {
        self.channels = channels
        self.roles = roles
    }

    /// Replaces the grants by those of a winning revision with `sequence`; a grant that stays keeps its
    /// sequence, so that no feed repeats its channel.
    package mutating func replace(with outcome: SyncOutcome, at sequence: UInt64) {
        channels = Self.replaced(channels, with: outcome.access, at: sequence)
        roles = Self.replaced(roles, with: outcome.roles, at: sequence)
    }

    private static func replaced<Name>(
        _ old: [PrincipalKey: GrantSet<Name>],
        with names: [PrincipalKey: Set<Name>],
        at sequence: UInt64
    ) -> [PrincipalKey: GrantSet<Name>] {
        var new: [PrincipalKey: GrantSet<Name>] = [:]
        for (key, names) in names {
            var grants = old[key] ?? GrantSet()
            grants.replace(with: names, at: sequence)
            new[key] = grants
        }
        return new
    }
}

/// The grants of all documents of a database, by principal.
///
/// It is derived from the documents, and can be rebuilt from them.
///
/// Memory: 8 bytes for each grant of a document, and one entry for each name that a principal has.
package struct GrantIndex: Sendable {
    private var channels: [PrincipalKey: [ChannelName: [UInt64]]] = [:]
    private var roles: [PrincipalKey: [String: [UInt64]]] = [:]

    package init() {}

    /// Replaces the grants of one document.
    ///
    /// - Returns: The principals whose grants may differ.
    package mutating func replace(
        _ old: DocumentGrants,
        with new: DocumentGrants
    ) -> Set<PrincipalKey> {
        Self.replace(old.channels, with: new.channels, in: &channels).union(
            Self.replace(old.roles, with: new.roles, in: &roles)
        )
    }

    package func channels(of key: PrincipalKey) -> GrantSet<ChannelName> {
        Self.earliest(channels[key])
    }

    package func roles(of key: PrincipalKey) -> GrantSet<String> { Self.earliest(roles[key]) }

    private static func replace<Name>(
        _ old: [PrincipalKey: GrantSet<Name>],
        with new: [PrincipalKey: GrantSet<Name>],
        in index: inout [PrincipalKey: [Name: [UInt64]]]
    ) -> Set<PrincipalKey> {
        let keys = Set(old.keys).union(new.keys).filter { old[$0] != new[$0] }
        for key in keys {
            for grant in old[key]?.grants ?? [] {
                index[key]?[grant.name]?.removeSorted(grant.sequence)
                if index[key]?[grant.name]?.isEmpty == true { index[key]?[grant.name] = nil }
            }
            for grant in new[key]?.grants ?? [] {
                index[key, default: [:]][grant.name, default: []].insertSorted(grant.sequence)
            }
            if index[key]?.isEmpty == true { index[key] = nil }
        }
        return keys
    }

    private static func earliest<Name>(_ sequences: [Name: [UInt64]]?) -> GrantSet<Name> {
        var grants = GrantSet<Name>()
        for (name, sequences) in sequences ?? [:] {
            if let first = sequences.first { grants.insert(name, at: first) }
        }
        return grants
    }
}

extension [UInt64] {
    /// The index of the first element of a sorted array that is not below `value`.
    func lowerBound(_ value: UInt64) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < value { low = middle + 1 } else { high = middle }
        }
        return low
    }

    fileprivate mutating func insertSorted(_ value: UInt64) { insert(value, at: lowerBound(value)) }

    fileprivate mutating func removeSorted(_ value: UInt64) {
        let index = lowerBound(value)
        if index < count, self[index] == value { remove(at: index) }
    }
}
