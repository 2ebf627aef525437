internal import ClusterService
internal import Orchestration

/// What monitoring and user interfaces exchange with a node besides statistics: where a Prometheus
/// server finds all nodes, and errors that a user interface reports.
extension Routes {
    static let monitoring: [Route] = [
        Route(.get, "/prometheus_sd_config", .permission("cluster.admin.stats_export!read")) {
            targets($0)
        },
        Route(.post, "/logClientError", .permission("cluster.ui!read"), body: .raw) { call in
            call.service.logClientError(clientError(call.request.body))
            return .done
        },
    ]

    /// The admin ports of all nodes, in the form of Prometheus's HTTP service discovery.
    private static func targets(_ call: Call) -> Reply {
        let query = call.request.query
        // Nothing else is announced: a Prometheus server would find no port with TLS.
        let values = [
            "type": ["json", "yaml"], "port": ["insecure"], "disposition": ["inline"],
            "network": ["default"], "clusterLabels": ["none"],
        ]
        let errors = query.pairs.compactMap { name, value -> FieldError? in
            guard let known = values[name] else { return FieldError(name, "Unsupported key") }
            let list = known.joined(separator: ",")
            return known.contains(value)
                ? nil : FieldError(name, "The value must be one of the following: [\(list)]")
        }
        guard errors.isEmpty else { return .refused(errors) }
        let names = call.shownNodes.map { JSONText.string(NodeJSON(call, $0).hostname) }
        var reply = Reply.json([["targets": .array(names)]])
        // JSON is valid YAML.
        if query["type"] == "yaml" { reply.contentType = "text/yaml" }
        return reply
    }

    /// The most bytes of a report that are logged: some twenty lines of a stack.
    private static let clientErrorBytesMax = 4_096

    /// A report as one line of the log.
    private static func clientError(_ body: [UInt8]) -> String {
        let text = String(decoding: body.prefix(clientErrorBytesMax), as: UTF8.self)
        var line = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: line.append(" ")
            default: line.append(scalar)
            }
        }
        let rest = body.count > clientErrorBytesMax ? " (shortened)" : ""
        return "A user interface reports an error: " + String(line) + rest
    }
}
