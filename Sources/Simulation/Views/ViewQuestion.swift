internal import Indexing

/// A query of a view.
package struct ViewQuestion: Hashable, Sendable {
    package enum Grouping: Hashable, Sendable {
        /// The rows of the map function.
        case none
        /// One value for all rows.
        case all
        /// By the first element of the key.
        case first
        /// By the key.
        case exact
    }

    package var bucket: String
    package var view: SimulatedView
    /// `stale=false`: the answer has every change that was visible when it was asked.
    package var isFresh: Bool
    /// `stale=ok` instead of `update_after`.
    package var isOK = false
    package var grouping = Grouping.none
    package var isDescending = false
    /// Inclusive; the lower key first, whatever the direction.
    package var range: ClosedRange<ViewKey>?
    package var limit: Int?
    package var timeoutMilliseconds = 10_000

    package init(bucket: String, view: SimulatedView, isFresh: Bool) {
        self.bucket = bucket
        self.view = view
        self.isFresh = isFresh
    }

    /// The parameters as a client sends them.
    var parameters: [QueryParameter] {
        var all = [("stale", isFresh ? "false" : isOK ? "ok" : "update_after")]
        all.append(("connection_timeout", "\(timeoutMilliseconds)"))
        if view.reduce != nil { all.append(("reduce", grouping == .none ? "false" : "true")) }
        switch grouping {
        case .none, .all: break
        case .first: all.append(("group_level", "1"))
        case .exact: all.append(("group", "true"))
        }
        if isDescending { all.append(("descending", "true")) }
        if let range {
            let (start, end) =
                isDescending
                ? (range.upperBound, range.lowerBound) : (range.lowerBound, range.upperBound)
            all += [("startkey", start.json), ("endkey", end.json)]
        }
        if let limit { all.append(("limit", "\(limit)")) }
        return all.map { QueryParameter(name: $0.0, value: Array($0.1.utf8)) }
    }

    /// The rows of one document that the query selects, before the limit.
    package func rows(id: String, text: String?) -> [ViewRow] {
        let rows = view.map.rows(id: id, text: text)
        guard let range else { return rows }
        return rows.filter { range.contains($0.key) }
    }

    /// The group of a row.
    package func group(of row: ViewRow) -> ViewKey {
        switch (grouping, row.key) {
        case (.all, _): .null
        case (.first, .list(let list)): .list(Array(list.prefix(1)))
        default: row.key
        }
    }
}

extension ViewQuestion: CustomStringConvertible {
    package var description: String {
        let texts = parameters.map { "\($0.name)=\(String(decoding: $0.value, as: UTF8.self))" }
        return "\(bucket) \(view.document)/\(view.name)?" + texts.joined(separator: "&")
    }
}
