internal import Orchestration
internal import Vocabulary

/// Which users a list contains and in which order, by the query of Couchbase Server's lists.
///
/// - Texts are compared by their bytes, equal ones by the ids of their users. An order is therefore
///   complete, and a page can begin at any user.
struct UserSelection {
    /// The field by which the list is sorted.
    private enum Key: String, CaseIterable {
        case id
        case name
        /// All users here are local, so this is the order of ids.
        case domain
        case passwordChange = "password_change_timestamp"
    }

    /// The position of a user in the ascending order.
    private struct Position {
        var number: UInt64 = 0
        var text = ""
        let id: String

        func precedes(_ other: Position) -> Bool {
            if number != other.number { return number < other.number }
            if !text.utf8.elementsEqual(other.text.utf8) {
                return text.utf8.lexicographicallyPrecedes(other.text.utf8)
            }
            return id.utf8.lexicographicallyPrecedes(other.id.utf8)
        }
    }

    /// The users must have this permission; nil for all users.
    private let permission: Permission?
    /// The id or the full name must contain this text, in any case; empty for all users.
    private let substring: String
    private let key: Key
    private let isDescending: Bool
    /// The fields of the query that the links to other pages repeat.
    let parameters: [(name: String, value: String)]

    /// - Parameters:
    ///   - query: The fields of the query.
    ///   - isPaged: Whether the list has pages. As in Couchbase Server, another list has neither an
    ///     order nor a substring.
    /// - Throws: `FieldError` for a malformed permission and an unknown order.
    init(_ query: FormParameters, isPaged: Bool) throws(FieldError) {
        permission = try Self.permission(query)
        let paged = isPaged ? query : FormParameters([])
        substring = (paged["substr"] ?? "").lowercased()
        let keys = Key.allCases.map(\.rawValue)
        key = Key(rawValue: try Self.word(paged, "sortBy", among: keys) ?? "") ?? .id
        isDescending = try Self.word(paged, "order", among: ["asc", "desc"]) == "desc"
        parameters = ["permission", "substr", "sortBy", "order"].compactMap { name in
            query[name].map { (name, $0) }
        }
    }

    /// The permission of a query; nil if it has none.
    ///
    /// - Throws: `FieldError` if the permission is malformed.
    static func permission(_ query: FormParameters) throws(FieldError) -> Permission? {
        guard let text = query["permission"] else { return nil }
        guard let permission = Permission(text) else {
            throw FieldError("permission", "Malformed permission")
        }
        return permission
    }

    /// The value of a field that has one of these words; nil if it is missing.
    ///
    /// - Throws: `FieldError` for another value.
    private static func word(
        _ query: FormParameters,
        _ field: String,
        among words: [String]
    ) throws(FieldError) -> String? {
        guard let text = query[field] else { return nil }
        guard words.contains(text) else {
            let reason = "The value must be one of the following: [\(words.joined(separator: ","))]"
            throw FieldError(field, reason)
        }
        return text
    }

    /// The selected users in their order.
    func users(of all: [LocalUser]) -> [LocalUser] {
        all.filter(isSelected).sorted { isBefore(position(of: $0), position(of: $1)) }
    }

    /// Where the page of a user begins.
    ///
    /// The id of a user that does not exist, for example one that was deleted since the link to its
    /// page, has a position only in the order of ids: its other fields are unknown.
    ///
    /// - Parameters:
    ///   - id: The user's id.
    ///   - users: The selected users in their order.
    ///   - all: All users: the user itself need not be selected.
    /// - Returns: The index of the first user that is not before this one.
    /// - Throws: `FieldError` if the position of the id is unknown.
    func start(
        at id: String,
        in users: [LocalUser],
        of all: [LocalUser]
    ) throws(FieldError) -> Int {
        let user = all.first { $0.hasID(id) }
        guard user != nil || isSortedByID else {
            let reason =
                "There is no user \"\(id)\", so its place in the order of \(key.rawValue) is unknown. "
                + "Request the first page again, without startFrom, or sort by id."
            throw FieldError("startFrom", reason)
        }
        let start = user.map(position) ?? Position(id: id)
        return users.firstIndex { !isBefore(position(of: $0), start) } ?? users.count
    }

    private var isSortedByID: Bool {
        switch key {
        case .id, .domain: true
        case .name, .passwordChange: false
        }
    }

    private func isSelected(_ user: LocalUser) -> Bool {
        if let permission, !user.roles.allows(permission) { return false }
        guard !substring.isEmpty else { return true }
        return user.id.lowercased().contains(substring)
            || user.name.lowercased().contains(substring)
    }

    private func position(of user: LocalUser) -> Position {
        switch key {
        case .id, .domain: Position(id: user.id)
        case .name: Position(text: user.name, id: user.id)
        case .passwordChange: Position(number: user.passwordChangedSeconds, id: user.id)
        }
    }

    private func isBefore(_ one: Position, _ other: Position) -> Bool {
        isDescending ? other.precedes(one) : one.precedes(other)
    }
}
