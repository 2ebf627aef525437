internal import Orchestration

/// One page of the list of users: so many users from one id on.
struct UserPage {
    struct FormError: Error {
        let field: FieldError
    }

    /// As in Couchbase Server.
    private static let sizes: ClosedRange<UInt64> = 2...100

    private let size: Int
    /// The first user of the page has this id, or the next larger one; nil for the first page.
    private let start: String?

    /// Nil if the query asks for no pages.
    ///
    /// - Throws: `FormError` if the size of a page is missing or not possible.
    init?(_ query: FormParameters) throws(FormError) {
        start = query["startFrom"]
        guard let text = query["pageSize"] else {
            guard start == nil else {
                throw FormError(field: FieldError("pageSize", "The value must be supplied"))
            }
            return nil
        }
        guard let number = FormParameters.number(text), Self.sizes.contains(number) else {
            let bounds = "\(Self.sizes.lowerBound) to \(Self.sizes.upperBound)"
            let reason = "The value of \"pageSize\" must be in range from \(bounds)"
            throw FormError(field: FieldError("pageSize", reason))
        }
        size = Int(number)
    }

    /// - Parameters:
    ///   - users: All users, sorted by the bytes of their ids.
    ///   - path: The path of the list, for the links to the other pages.
    /// - Returns: The page, with links.
    func json(of users: [LocalUser], path: String) -> JSONText {
        let first = start.map { start in
            users.firstIndex { !$0.id.utf8.lexicographicallyPrecedes(start.utf8) } ?? users.count
        }
        let place = first ?? 0
        let page = users.dropFirst(place).prefix(size)
        var links = [("first", link(path, from: nil))]
        if place > 0 {
            let before = max(0, place - size)
            links.append(("prev", link(path, from: before == 0 ? nil : users[before].id)))
        }
        if page.endIndex < users.count {
            links.append(("next", link(path, from: users[page.endIndex].id)))
        }
        let last = max(0, users.count - size)
        links.append(("last", link(path, from: last == 0 ? nil : users[last].id)))
        return [
            "total": .number(users.count),
            "links": .object(links.map { ($0.0, .string($0.1)) }),
            "skipped": .number(place),
            "users": .array(page.map(UserJSON.user)),
        ]
    }

    private func link(_ path: String, from id: String?) -> String {
        let query = "\(path)?pageSize=\(size)"
        guard let id else { return query }
        return query + "&startFromDomain=\(UserJSON.domain)&startFrom=\(URLCoding.encode(id.utf8))"
    }
}
