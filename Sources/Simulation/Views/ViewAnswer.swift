internal import JSON

/// The answer to a query of a view, read from its JSON text.
package struct ViewAnswer: Hashable, Sendable {
    package struct Row: Hashable, Sendable {
        /// Empty for a reduction.
        package var id: String
        package var row: ViewRow

        package init(id: String, _ row: ViewRow) {
            self.id = id
            self.row = row
        }
    }

    package var rows: [Row] = []
    /// The vBuckets whose rows may be missing.
    package var missing: Set<Int> = []
    /// Those of them whose index is being built, so that the answer has none of their rows.
    package var unbuilt: Set<Int> = []
    /// An entry of `errors` names no vBucket, so any row may be missing.
    package var mayMissAll = false
    package var errors: [String] = []

    package init(rows: [Row]) {
        self.rows = rows
    }

    /// Reads an answer; nil if it is not the JSON text that a query has.
    package init?(_ text: String) {
        guard let json = JSONValue.parse(text), let rows = json["rows"]?.array else { return nil }
        for row in rows {
            guard let key = row["key"].flatMap(ViewKey.init), let value = row["value"],
                value.isNull || value.int != nil
            else { return nil }
            self.rows.append(Row(id: row["id"]?.string ?? "", ViewRow(key, value.int)))
        }
        for error in json["errors"]?.array ?? [] {
            let reason = error["reason"]?.string ?? ""
            errors.append(reason)
            let named = ViewAnswer.vBuckets(in: reason)
            if named.isEmpty { mayMissAll = true }
            missing.formUnion(named)
            if reason.hasPrefix("The index is being built") { unbuilt.formUnion(named) }
        }
    }

    package var isComplete: Bool { errors.isEmpty }

    /// The vBuckets that a sentence names, as "vBucket 3" or "vBuckets 0-3, 7"; empty if none.
    package static func vBuckets(in reason: String) -> Set<Int> {
        var found: Set<Int> = []
        let words = reason.split(separator: " ")
        var isNaming = false
        for word in words {
            if word == "vBucket" || word == "vBuckets" {
                isNaming = true
                continue
            }
            guard isNaming else { continue }
            let bare = word.filter { $0.isNumber || $0 == "-" }
            let ends = bare.split(separator: "-").compactMap { Int($0) }
            guard let first = ends.first, let last = ends.last, first <= last else {
                isNaming = false
                continue
            }
            found.formUnion(first...last)
            // A comma continues the list.
            isNaming = word.hasSuffix(",")
        }
        return found
    }
}

extension ViewKey {
    /// A key of the simulated views; nil for any other JSON value.
    init?(_ json: JSONValue) {
        if json.isNull {
            self = .null
        } else if let number = json.int {
            self = .number(number)
        } else if let text = json.string {
            self = .text(text)
        } else if let list = json.array {
            let numbers = list.compactMap(\.int)
            guard numbers.count == list.count else { return nil }
            self = .list(numbers)
        } else {
            return nil
        }
    }
}
