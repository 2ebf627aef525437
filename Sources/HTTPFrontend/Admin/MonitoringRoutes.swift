internal import ClusterService
internal import Orchestration

/// Routes for monitoring and user interfaces besides statistics: the targets of a Prometheus server, and
/// errors that a user interface reports.
extension AdminRoutes {
    static let monitoring: [Route] = [
        Route(.get, "/prometheus_sd_config", access: .permission("cluster.admin.stats_export!read"))
        {
            targets($0)
        },
        Route(.post, "/logClientError", access: .permission("cluster.ui!read"), body: .raw) {
            call in
            let report = clientError(call.request.body)
            guard let seconds = call.service.statistics.logClientError(report) else { return .done }
            let text =
                "Too many errors were reported to this node, and this one was not logged. "
                + "Retry in \(seconds) seconds.\r\n"
            return Reply.text(text, status: 429).header("Retry-After", "\(seconds)")
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
        let names = call.shownNodes.map { JSONText.string(NodeJSON(call: call, node: $0).hostname) }
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
        var isShortened = body.count > clientErrorBytesMax
        // Bytes that are not UTF-8 become longer.
        var room = clientErrorBytesMax
        for scalar in text.unicodeScalars {
            var written = scalar
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator: written = " "
            default: break
            }
            room -= UTF8.width(written)
            guard room >= 0 else {
                isShortened = true
                break
            }
            line.append(written)
        }
        let rest = isShortened ? " (shortened)" : ""
        return "A user interface reports an error: " + String(line) + rest
    }
}
