internal import Orchestration

/// One page of the list of users: so many users from one user on.
struct UserPage {
    /// As in Couchbase Server.
    private static let sizes: ClosedRange<UInt64> = 2...100

    private let size: Int
    /// The first user of the page has this id, or is the next in the list; nil for the first page.
    ///
    /// `UserSelection.start` has the ids for which there is no page.
    private let start: String?

    /// Nil if the query asks for no pages.
    ///
    /// - Throws: `FieldError` if the size of a page is missing or not possible.
    init?(_ query: FormParameters) throws(FieldError) {
        start = query["startFrom"]
        guard let text = query["pageSize"] else {
            guard start == nil else {
                throw FieldError("pageSize", "The value must be supplied")
            }
            return nil
        }
        guard let number = FormParameters.number(text), Self.sizes.contains(number) else {
            let bounds = "\(Self.sizes.lowerBound) to \(Self.sizes.upperBound)"
            let reason = "The value of \"pageSize\" must be in range from \(bounds)"
            throw FieldError("pageSize", reason)
        }
        size = Int(number)
    }

    /// - Parameters:
    ///   - all: All users.
    ///   - selection: Which of them the list contains, and in which order.
    ///   - path: The path of the list, for the links to the other pages.
    /// - Returns: The page, with links.
    /// - Throws: `FieldError` if the page's first user does not exist, and its place is unknown.
    func json(
        of all: [LocalUser],
        _ selection: UserSelection,
        path: String
    ) throws(FieldError) -> JSONText {
        let users = selection.users(of: all)
        var place = 0
        if let start { place = try selection.start(at: start, in: users, of: all) }
        let query = "\(path)?pageSize=\(size)" + Self.text(of: selection.parameters)
        let page = users.dropFirst(place).prefix(size)
        var links = [("first", link(query, from: nil))]
        if place > 0 {
            let before = max(0, place - size)
            links.append(("prev", link(query, from: before == 0 ? nil : users[before].id)))
        }
        if page.endIndex < users.count {
            links.append(("next", link(query, from: users[page.endIndex].id)))
        }
        let last = max(0, users.count - size)
        links.append(("last", link(query, from: last == 0 ? nil : users[last].id)))
        return [
            "total": .number(users.count),
            "links": .object(links.map { ($0.0, .string($0.1)) }),
            "skipped": .number(place),
            "users": .array(page.map(UserJSON.user)),
        ]
    }

    private static func text(of parameters: [(name: String, value: String)]) -> String {
        parameters.map { "&\($0.name)=\(URLCoding.encode($0.value.utf8))" }.joined()
    }

    private func link(_ query: String, from id: String?) -> String {
        guard let id else { return query }
        return query + "&startFromDomain=\(UserJSON.domain)&startFrom=\(URLCoding.encode(id.utf8))"
    }
}
