internal import Bytes
internal import Orchestration
internal import Vocabulary

/// A class of routes whose requests have one histogram; the raw values are labels.
enum RouteClass: String, CaseIterable, Sendable {
    case documents
    case buckets
    case views
    case statistics
    case settings
    case users
    case nodes
    case pools
    case console

    /// Nil for routes whose replies go on until their clients leave.
    init?(pattern: String) {
        let path = pattern.split(separator: "/").map(String.init)
        let first = path.first ?? ""
        if Self.isStream(path) { return nil }
        switch first {
        case "<bucket>", "couchBase": self = .views
        case "metrics", "prometheus_sd_config", "logs", "logClientError": self = .statistics
        case "settings", "internalSettings", "diag", "sampleBuckets":
            self = path.dropFirst().first == "rbac" ? .users : .settings
        case "controller": self = path.last == "changePassword" ? .users : .nodes
        case "clusterInit", "node", "nodes", "nodeInit", "nodeStatuses": self = .nodes
        case "uilogin", "uilogout", "ui", "": self = .console
        case "pools": self.init(poolPath: path)
        default: self = .pools
        }
    }

    private init(poolPath path: [String]) {
        guard path.count > 2, path[1] == "default" else {
            self = .pools
            return
        }
        let rest = path.dropFirst(4)
        switch (path[2], rest.first) {
        case ("buckets", "docs"), ("buckets", "localRandomKey"): self = .documents
        case ("buckets", "stats"): self = .statistics
        case ("buckets", "ddocs"): self = .views
        case ("buckets", "nodes") where rest.last == "stats": self = .statistics
        case ("buckets", "controller") where rest.last == "tryMap": self = .views
        case ("buckets", _), ("b", _): self = .buckets
        case ("settings", _): self = .settings
        case ("serverGroups", _): self = .nodes
        default: self = .pools
        }
    }

    private static func isStream(_ path: [String]) -> Bool {
        path.contains { $0.hasSuffix("treaming") } || path.first == "poolsStreaming"
            || path.starts(with: ["pools", "default", "bs"]) || path.last == "changes"
    }
}

/// How long requests take, by class of route, on all HTTP ports of a node.
final class RequestLatencies: Sendable {
    private let table = LatencyTable(rows: 1, kinds: RouteClass.allCases.count)

    /// Records a request, unless its reply waits for a change.
    func record(_ request: RESTRequest, to route: Route, nanoseconds: UInt64) {
        guard let kind = route.label.kind, request.query["waitChange"] == nil else { return }
        table.recordShared(kind, nanoseconds: nanoseconds)
    }

    /// The histograms that are not empty.
    var readings: [LatencyReading] {
        RouteClass.allCases.enumerated().compactMap { kind, one in
            table.histogram(kind).map {
                LatencyReading(.requests, [("class", one.rawValue)], histogram: $0)
            }
        }
    }
}
