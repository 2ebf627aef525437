internal import ClusterService
internal import Indexing
internal import Orchestration
internal import Scripting
internal import ViewService
internal import Vocabulary

/// Errors of the map functions of a design document: our own addition, for authors.
extension AdminRoutes {
    /// The errors on this node, which indexes only the documents that it serves.
    static func functionErrors(_ services: ViewServer.Services) -> Route {
        Route.ofBucket(.get, "/ddocs/<design>/errors", permission: ".views!read") { call in
            let name = call.capture(1)
            guard let bucket = call.bucket?.settings,
                services.designDocuments.document(name, ofBucket: bucket.name) != nil
            else { return .notFound }
            let indexes = services.reading()?.indexes ?? []
            var views: [(name: String, report: IndexReport)] = []
            for report in indexes where report.bucket == bucket.uuid {
                for view in report.views where view.designDocument == name {
                    views.append((view.view, report))
                }
            }
            views.sort { $0.name < $1.name }
            let node = call.state.node(number: call.service.thisNode)
            return .json([
                "node": .string(node.map { NodeJSON(call: call, node: $0).hostname } ?? ""),
                "views": .object(views.map { ($0.name, errors($0.report)) }),
            ])
        }
    }

    private static func errors(_ report: IndexReport) -> JSONText {
        let errors = report.status.errors
        let counts = ScriptErrors.Kind.allCases.compactMap { kind in
            errors.counts[kind].map { (kind.rawValue, JSONText.number($0)) }
        }
        var members: [(String, JSONText)] = [
            ("total", .number(errors.counts.values.reduce(0, +))),
            ("counts", .object(counts)),
            ("last", .array(errors.recent.reversed().map(entry))),
        ]
        if let fault = report.fault { members.append(("fault", .string(fault))) }
        return .object(members)
    }

    private static func entry(_ entry: ScriptErrors.Entry) -> JSONText {
        [
            "kind": .string(entry.kind.rawValue),
            "id": .string(entry.id),
            "line": .number(entry.line),
            "text": .string(entry.text),
        ]
    }
}
