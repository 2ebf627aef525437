internal import Foundation

/// The view of the demo: how many orders have each status, and what they are worth.
struct DemoView {
    let bucket: String
    let admin: AdminClient

    private static let designDocument = "orders"
    private static let view = "by_status"
    private static let definition = """
        {"views":{"by_status":{\
        "map":"function (doc, meta) {\\n  if (doc.type === 'order') {\\n    \
        emit(doc.status, doc.totalCents / 100);\\n  }\\n}",\
        "reduce":"_stats"}}}
        """

    /// The view port's routes on the admin port.
    private var path: String { "/couchBase/\(bucket)/_design/\(DemoView.designDocument)" }

    /// Creates the design document if it does not exist; false if it does.
    func create() throws -> Bool {
        guard try admin.request("GET", path).status == 404 else { return false }
        try admin.require("PUT", path, json: DemoView.definition)
        return true
    }

    private struct Answer: Decodable {
        struct Row: Decodable {
            struct Statistics: Decodable {
                let count: Int
                let sum: Double
                let max: Double
            }

            let key: String
            let value: Statistics
        }

        struct Problem: Decodable {
            let from: String
            let reason: String
        }

        let rows: [Row]
        let errors: [Problem]?
    }

    /// The groups of the view as a small table, after all documents are indexed.
    func table() throws -> String {
        let query = "group=true&stale=false"
        let answer = try admin.require("GET", "\(path)/_view/\(DemoView.view)?\(query)")
            .json(Answer.self)
        if let problem = answer.errors?.first {
            throw Refusal("The view could not be read whole: \(problem.reason) (\(problem.from))")
        }
        let head = ["status", "orders", "sum", "largest"]
        let rows = answer.rows.map { row in
            [
                row.key, String(row.value.count), String(format: "%.2f", row.value.sum),
                String(format: "%.2f", row.value.max),
            ]
        }
        let widths = head.indices.map { column in
            ([head] + rows).map { $0[column].count }.max() ?? 0
        }
        return ([head] + rows).map { cells in
            let padded = cells.enumerated().map { column, text in
                let blanks = String(repeating: " ", count: widths[column] - text.count)
                return column == 0 ? text + blanks : blanks + text
            }
            return "  " + padded.joined(separator: "  ")
        }.joined(separator: "\n")
    }
}
