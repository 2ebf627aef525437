/// The possible values of each document while a query of a view is answered, and the check that an answer
/// is that of the view over one choice of them.
///
/// A choice is a plain in-memory evaluation: map, range, order, limit, groups. Documents are chosen
/// independently of each other, so a group's value is compared with bounds.
package struct ViewExpectation: Sendable {
    /// The values that a document may have, by its ID.
    ///
    /// Nil: it does not exist. An ID that is missing here is that of no document.
    package var choices: [String: Set<String?>]

    package init(_ choices: [String: Set<String?>]) {
        self.choices = choices
    }

    /// A sentence on the first difference; nil if the answer is right.
    package func flaw(in answer: ViewAnswer, to question: ViewQuestion) -> String? {
        question.grouping == .none ? flawInRows(answer, question) : flawInGroups(answer, question)
    }

    // MARK: Rows

    private func flawInRows(_ answer: ViewAnswer, _ question: ViewQuestion) -> String? {
        let rows = answer.rows
        for (one, next) in zip(rows, rows.dropFirst())
        where ViewExpectation.precedes(next, one, question: question) {
            return "row \(one.id) \(one.row.key.json) is before \(next.id) \(next.row.key.json)"
        }
        if let limit = question.limit, rows.count > limit {
            return "\(rows.count) rows exceed the limit of \(limit)"
        }
        let isCut = question.limit.map { rows.count == $0 } ?? false
        let last = isCut ? rows.last : nil
        if isCut, last == nil { return nil }
        var found: [String: [ViewRow]] = [:]
        for row in rows { found[row.id, default: []].append(row.row) }
        for id in Set(choices.keys).union(found.keys).sorted() {
            let held = found[id] ?? []
            let allowed = choices[id] ?? [nil]
            let isRight = allowed.contains { text in
                let wanted = ViewExpectation.ordered(question.rows(id: id, text: text), question)
                guard let last else { return wanted == held }
                // The rows behind the last one were not requested.
                if last.id == id { return Array(wanted.prefix(held.count)) == held }
                return held
                    == wanted.filter {
                        ViewExpectation.precedes(
                            ViewAnswer.Row(id: id, $0),
                            last,
                            question: question
                        )
                    }
            }
            if !isRight {
                return "\(id) has \(held.count) rows \(text(held)), but was \(text(allowed))"
            }
        }
        return nil
    }

    /// Whether a row is strictly before another one in the query's direction, by key and ID.
    private static func precedes(
        _ one: ViewAnswer.Row,
        _ other: ViewAnswer.Row,
        question: ViewQuestion
    ) -> Bool {
        let (first, second) = question.isDescending ? (other, one) : (one, other)
        guard first.row.key == second.row.key else { return first.row.key < second.row.key }
        return first.id.utf8.lexicographicallyPrecedes(second.id.utf8)
    }

    /// A document's rows in the query's direction; rows of equal keys as they were emitted.
    private static func ordered(_ rows: [ViewRow], _ question: ViewQuestion) -> [ViewRow] {
        let sorted = rows.enumerated().sorted {
            $0.element.key == $1.element.key
                ? $0.offset < $1.offset : $0.element.key < $1.element.key
        }
        let ascending = sorted.map(\.element)
        return question.isDescending ? ascending.reversed() : ascending
    }

    private func text(_ rows: [ViewRow]) -> String {
        rows.prefix(4).map { "\($0.key.json):\($0.value.map { "\($0)" } ?? "null")" }
            .joined(separator: " ")
    }

    private func text(_ allowed: Set<String?>) -> String {
        allowed.map { $0 ?? "nothing" }.sorted().prefix(6).joined(separator: " or ")
    }

    // MARK: Groups

    /// The bounds of one group's value over all choices of the documents.
    private struct Bounds {
        var low = 0
        var high = 0
        /// Whether some document has rows of the group in each of its choices.
        var isCertain = false
    }

    private func flawInGroups(_ answer: ViewAnswer, _ question: ViewQuestion) -> String? {
        let bounds = bounds(question)
        var found: [ViewKey: Int] = [:]
        for row in answer.rows {
            let name = row.row.key.json
            guard let value = row.row.value else { return "group \(name) has no value" }
            guard found.updateValue(value, forKey: row.row.key) == nil else {
                return "group \(name) is there twice"
            }
            guard let wanted = bounds[row.row.key] else { return "no row is in group \(name)" }
            guard wanted.low...max(wanted.low, wanted.high) ~= value else {
                return "group \(name) is \(value), not in \(wanted.low)...\(wanted.high)"
            }
        }
        for (key, wanted) in bounds.sorted(by: { $0.key < $1.key })
        where wanted.isCertain && found[key] == nil {
            return "group \(key.json) is missing"
        }
        let keys = answer.rows.map(\.row.key)
        let isOrdered =
            question.isDescending ? keys.reversed() == keys.sorted() : keys == keys.sorted()
        return isOrdered ? nil : "the groups are out of order"
    }

    private func bounds(_ question: ViewQuestion) -> [ViewKey: Bounds] {
        var all: [ViewKey: Bounds] = [:]
        for (id, allowed) in choices {
            let variants = allowed.map { text in
                Dictionary(grouping: question.rows(id: id, text: text)) { question.group(of: $0) }
            }
            for key in Set(variants.flatMap(\.keys)) {
                let values = variants.map { ViewExpectation.value(of: $0[key], question.view) }
                let isCertain = !values.contains(nil)
                let (low, high) = (
                    values.compactMap { $0 }.min() ?? 0, values.compactMap { $0 }.max() ?? 0
                )
                var bounds = all[key] ?? Bounds()
                if question.view.reduce == .largest {
                    if isCertain { bounds.low = max(bounds.low, low) }
                    bounds.high = max(bounds.high, high)
                } else {
                    bounds.low += isCertain ? low : 0
                    bounds.high += high
                }
                bounds.isCertain = bounds.isCertain || isCertain
                all[key] = bounds
            }
        }
        return all
    }

    /// The reduction of one document's rows; nil if there are none.
    private static func value(of rows: [ViewRow]?, _ view: SimulatedView) -> Int? {
        guard let rows, !rows.isEmpty else { return nil }
        let values = rows.compactMap(\.value)
        return switch view.reduce {
        case nil, .count: rows.count
        case .sum: values.reduce(0, +)
        case .largest: values.max()
        }
    }
}
