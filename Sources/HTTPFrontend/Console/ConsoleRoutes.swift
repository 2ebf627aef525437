internal import ClusterService
internal import Orchestration

/// The web console's files, which are embedded in the program.
extension AdminRoutes {
    private static let script = "text/javascript; charset=utf-8"

    private static let assets: [String: (type: String, bytes: [UInt8])] = [
        "index.html": ("text/html; charset=utf-8", PackageResources.index_html),
        "console.css": ("text/css; charset=utf-8", PackageResources.console_css),
        "icon.svg": ("image/svg+xml", PackageResources.icon_svg),
        "api.js": (script, PackageResources.api_js),
        "app.js": (script, PackageResources.app_js),
        "buckets.js": (script, PackageResources.buckets_js),
        "bucketsettings.js": (script, PackageResources.bucketsettings_js),
        "changes.js": (script, PackageResources.changes_js),
        "conflict.js": (script, PackageResources.conflict_js),
        "designs.js": (script, PackageResources.designs_js),
        "documenteditor.js": (script, PackageResources.documenteditor_js),
        "documents.js": (script, PackageResources.documents_js),
        "dom.js": (script, PackageResources.dom_js),
        "json.js": (script, PackageResources.json_js),
        "log.js": (script, PackageResources.log_js),
        "nodes.js": (script, PackageResources.nodes_js),
        "overview.js": (script, PackageResources.overview_js),
        "users.js": (script, PackageResources.users_js),
        "views.js": (script, PackageResources.views_js),
        "viewresult.js": (script, PackageResources.viewresult_js),
        "viewtools.js": (script, PackageResources.viewtools_js),
    ]

    static let console: [Route] = [
        Route(.get, "/", access: .open) { _ in redirection },
        Route(.get, "/ui", access: .open) { _ in redirection },
        Route(.get, "/ui/**", access: .open) { call in
            if let refusal = refusalOfConsole(call) { return refusal }
            let name = call.captures.map { String(decoding: $0, as: UTF8.self) }
                .joined(separator: "/")
            guard let asset = assets[name] else { return .notFound }
            // The browser loads only files of this server and runs no inline scripts.
            let policy = "default-src 'self'; frame-ancestors 'none'; form-action 'self'"
            return Reply(status: 200, contentType: asset.type, body: .bytes(asset.bytes))
                .header("Content-Security-Policy", policy)
        },
    ]

    /// Why the console is not served without TLS; nil if it is.
    static func refusalOfConsole(_ call: Call) -> Reply? {
        guard call.state.settings.security.disablesConsoleOverHTTP, !call.request.isSecured else {
            return nil
        }
        let port = call.state.node(number: call.service.thisNode)?.ports.adminTLS ?? 0
        return .text(
            "The console is served over TLS only (disableUIOverHttp): use https and port \(port).\r\n",
            status: 403
        )
    }

    private static var redirection: Reply {
        Reply.empty(301).header("Location", "/ui/index.html")
    }
}
