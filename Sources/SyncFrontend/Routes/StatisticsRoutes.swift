internal import Bytes
internal import JSON
internal import SyncService
internal import SyncWire

/// Counts answers by the class of their status.
///
/// The server calls `count` when an exchange has ended (`GatewayServer.didAnswer`).
package final class GatewayStatistics: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// From 2xx on; the last one are clients that left without an answer.
    private(set) var answers = [UInt64](repeating: 0, count: 5)
    static let classes = ["2xx", "3xx", "4xx", "5xx", "none"]

    package init() {}

    package func count(_ exchange: GatewayExchange) {
        let place = exchange.status / 100 - 2
        answers[answers.indices.contains(place) ? place : 4] += 1
    }
}

/// Statistics for monitoring: as JSON, and in the text form of Prometheus.
extension Gateway {
    package var statisticsRoutes: [GatewayRoute] {
        let prometheus: GatewayRoute.Handler = { [self] exchange in
            exchange.answer("text/plain; version=0.0.4; charset=utf-8", prometheusText)
        }
        let json: GatewayRoute.Handler = { [self] exchange in
            exchange.answer(json: 200) { writeStatistics(to: &$0) }
        }
        return [
            GatewayRoute([.get], "/metrics", on: [.metrics], handler: prometheus),
            GatewayRoute(
                [.get],
                "/_metrics",
                on: [.metrics, .administration],
                handler: prometheus
            ),
            GatewayRoute([.get], "/_stats", on: [.administration], handler: json),
            GatewayRoute([.get], "/_expvar", on: [.administration, .metrics], handler: json),
        ]
    }

    private func writeStatistics(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.object("requests") { writer in
                for (name, count) in zip(GatewayStatistics.classes, statistics.answers) {
                    writer.member(name, count)
                }
            }
            writer.object("memory") { writer in
                writer.member("used_bytes", databases.quota.usedBytes)
                writer.member("quota_bytes", databases.quota.bytesMax)
            }
            writer.object("databases") { writer in
                for usage in databases.usage() {
                    writer.object(usage.name) { writer in
                        for metric in Self.metrics {
                            writer.member(metric.name, metric.value(usage))
                        }
                    }
                }
            }
        }
    }

    private struct Metric {
        let name: String
        let isCounter: Bool
        let help: String
        let value: @Sendable (GatewayDatabases.Usage) -> Int
    }

    private static let metrics = [
        Metric(
            name: "documents",
            isCounter: false,
            help: "Documents, tombstones among them.",
            value: { $0.documents }
        ),
        Metric(name: "memory_bytes", isCounter: false, help: "Memory in use.", value: { $0.bytes }),
        Metric(
            name: "feeds",
            isCounter: false,
            help: "Requests that follow changes.",
            value: { $0.feeds }
        ),
        Metric(
            name: "sync_calls_total",
            isCounter: true,
            help: "Calls of the sync function since it was set.",
            value: { $0.calls }
        ),
        Metric(
            name: "sync_failures_total",
            isCounter: true,
            help: "Calls that ended with an exception or a limit.",
            value: { $0.failures }
        ),
    ]

    private var prometheusText: String {
        var text = Self.header("requests_total", "Requests by class of status.", isCounter: true)
        for (name, count) in zip(GatewayStatistics.classes, statistics.answers) {
            text += "divan_gateway_requests_total{status=\"\(name)\"} \(count)\n"
        }
        text += Self.header("memory_quota_bytes", "Memory that all databases may have.")
        text += "divan_gateway_memory_quota_bytes \(databases.quota.bytesMax)\n"
        let usages = databases.usage()
        for metric in Self.metrics {
            text += Self.header(metric.name, metric.help, isCounter: metric.isCounter)
            for usage in usages {
                // Names of databases have no character that the form escapes.
                text += "divan_gateway_\(metric.name){database=\"\(usage.name)\"} "
                text += "\(metric.value(usage))\n"
            }
        }
        return text
    }

    private static func header(_ name: String, _ help: String, isCounter: Bool = false) -> String {
        let type = isCounter ? "counter" : "gauge"
        return "# HELP divan_gateway_\(name) \(help)\n# TYPE divan_gateway_\(name) \(type)\n"
    }
}
