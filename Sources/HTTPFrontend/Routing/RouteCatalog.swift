internal import Vocabulary

/// All routes of a node's ports with what each needs: for tests, which compare it with the documented
/// table of privileges.
package enum RouteCatalog {
    package struct Entry: Sendable {
        package let method: String
        /// As `Route` has it: `*` for any segment, `<key>`, `<bucket>`, `<design>`, a final `**`.
        package let path: String
        /// The permission, with `[.]` for the bucket in the path; `open` or `login` if the route needs
        /// none.
        package let need: String
        /// The only fields of the query and the form that the route accepts; nil if it ignores others.
        package let parameters: [String]?
        /// The label of its histogram; nil if its replies go on until their clients leave.
        package let latencyClass: String?
    }

    /// The routes of the admin port of a node with views.
    package static func adminPort(_ views: ViewServer.Services) -> [Entry] {
        AdminTable(views: views).routes.map(Entry.init)
    }

    /// The routes of the view port.
    package static func viewPort(_ views: ViewServer.Services) -> [Entry] {
        ViewTable(views).routes.map(Entry.init)
    }
}

extension RouteCatalog.Entry {
    fileprivate init(_ route: Route) {
        let need =
            switch route.access {
            case .open: "open"
            case .login: "login"
            case .needs(let permission): permission.text
            }
        self.init(
            method: route.method.rawValue,
            path: route.pattern,
            need: need,
            parameters: route.parameters?.names,
            latencyClass: route.label.kind.map { RouteClass.allCases[$0].rawValue }
        )
    }
}
