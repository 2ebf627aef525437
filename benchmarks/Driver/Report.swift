internal import Bytes
internal import Foundation
internal import Histogram
internal import JSON
internal import Seams
internal import Wire

/// An outcome as a table for people and as JSON for scripts.
enum Report {
    private static let percentiles: [(name: String, value: Double)] = [
        ("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99), ("p99.9", 99.9), ("p99.99", 99.99),
    ]

    /// A number with a blank between thousands.
    static func grouped(_ number: Double) -> String {
        let digits = Array(String(Int(number.rounded())))
        var text = ""
        for (place, digit) in digits.enumerated() {
            let left = digits.count - place
            if place > 0, left % 3 == 0, digits[place - 1] != "-" { text.append(" ") }
            text.append(digit)
        }
        return text
    }

    // MARK: The table

    static func table(_ outcome: Outcome) -> String {
        let (workload, target) = (outcome.workload, outcome.target)
        let loop =
            workload.rate > 0
            ? "open loop at \(grouped(workload.rate)) ops/s" : "closed loop"
        var lines = [
            "\(workload.name)  \(target.dialect.rawValue) at \(target.address)",
            "  \(grouped(Double(workload.keys))) keys of \(workload.keyBytes) B, "
                + "\(workload.value.rawValue) values of \(workload.valueBytes) B, "
                + "\(trimmed(workload.writePercent)) % SET, \(way(outcome)), \(loop)",
        ]
        if let loading = outcome.loading {
            let rate = grouped(Double(loading.documents) / loading.seconds)
            lines.append("  loaded in \(fixed(loading.seconds, 1)) s (\(rate) ops/s)")
        }
        if let measured = outcome.measured { lines += measuredLines(measured, target) }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The kind of connections and the depth.
    private static func way(_ outcome: Outcome) -> String {
        let workload = outcome.workload
        guard let underWay = outcome.underWay else {
            return "\(workload.connections) connections, depth \(workload.depth)"
        }
        let count = workload.rate > 0 ? "" : ", \(underWay) under way"
        return "through the client library\(count)"
    }

    private static func measuredLines(
        _ measured: Outcome.Measured,
        _ target: LoadTest.Target
    ) -> [String] {
        let tally = measured.tally
        var lines = [
            "", "  \(grouped(measured.opsPerSecond)) ops/s in \(fixed(measured.seconds, 1)) s", "",
        ]
        let names = percentiles.map { padded($0.name, 9) }.joined()
        lines.append("  us     \(padded("mean", 9))\(names)\(padded("max", 9))")
        for (name, histogram) in [("GET", tally.reads), ("SET", tally.writes)]
        where histogram.totalCount > 0 {
            let cells = percentiles.map { histogram.valueAtPercentile($0.value) }
            let numbers = [UInt64(histogram.mean)] + cells + [histogram.max]
            let row = numbers.map { padded(fixed(Double($0) / 1_000, 1), 9) }.joined()
            lines.append("  \(name)    \(row)")
        }
        lines.append("")
        if !target.serverPIDs.isEmpty {
            lines.append(
                "  server \(padded(fixed(measured.serverPerOp, 0), 6)) ns CPU/op, "
                    + "\(percent(measured.serverUse)) of a core"
            )
        }
        lines.append(
            "  driver \(padded(fixed(measured.driverPerOp, 0), 6)) ns CPU/op, "
                + "\(percent(measured.driverUse)) of a core"
        )
        let cores = measured.coresBusy.enumerated().map { "\($0.offset): \(percent($0.element))" }
        lines.append("  cores busy  \(cores.joined(separator: ", "))")
        lines.append(
            "  \(grouped(Double(tally.hits))) hits, \(grouped(Double(tally.misses))) misses, "
                + "\(grouped(Double(tally.stored))) stored"
        )
        if measured.lagMax > 0 {
            lines.append("  sending was at most \(fixed(Double(measured.lagMax) / 1e6, 2)) ms late")
        }
        if let persistence = measured.persistence {
            lines.append("  \(sentence(persistence))")
        }
        for (status, count) in tally.errors.sorted(by: { $0.key < $1.key }) {
            lines.append("  \(grouped(Double(count))) answers \(name(ofStatus: status))")
        }
        for (kind, count) in tally.failures.sorted(by: { $0.key < $1.key }) {
            lines.append("  \(grouped(Double(count))) x \(kind)")
            if let example = tally.examples[kind] { lines.append("      \(example)") }
        }
        if tally.notBegun > 0 {
            lines.append("  \(grouped(Double(tally.notBegun))) were not begun: too many under way")
        }
        if tally.wrongSizes > 0 {
            lines.append("  \(grouped(Double(tally.wrongSizes))) values of the wrong size")
        }
        return lines
    }

    private static func sentence(_ persistence: PersistenceSampler.Outcome) -> String {
        let age = fixed(Double(persistence.ageMax) / 1e9, 2)
        return "persisted at the latest \(age) s after the answer (\(persistence.samples) samples, "
            + "\(persistence.late) still unpersisted after 0.5 s, \(persistence.pending) open)"
    }

    private static func name(ofStatus status: UInt16) -> String {
        Status(rawValue: status).map(\.name) ?? "status \(status)"
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }

    private static func fixed(_ number: Double, _ places: Int) -> String {
        String(format: "%.\(places)f", number)
    }

    private static func percent(_ share: Double) -> String { fixed(100 * share, 0) + " %" }

    private static func trimmed(_ number: Double) -> String {
        number == number.rounded() ? fixed(number, 0) : "\(number)"
    }

    // MARK: JSON

    static func json(_ outcome: Outcome) -> [UInt8] {
        JSONWriter.text { json in
            json.object { json in
                json.member("date", ISO8601DateFormatter().string(from: outcome.date))
                json.member("target", outcome.target.address.description)
                json.member("protocol", outcome.target.dialect.rawValue)
                json.member("through", outcome.underWay == nil ? "driver" : "client")
                json.object("workload") { write(outcome.workload, &$0) }
                if let loading = outcome.loading {
                    json.object("loading") { json in
                        json.member("documents", loading.documents)
                        json.member("seconds", loading.seconds)
                        json.member("serverCPUSeconds", loading.serverSeconds)
                    }
                }
                if let measured = outcome.measured {
                    write(measured, outcome.target, &json)
                }
            }
        } + Array("\n".utf8)
    }

    private static func write(_ workload: Workload, _ json: inout JSONWriter) {
        json.member("name", workload.name)
        json.member("keys", workload.keys)
        json.member("keyBytes", workload.keyBytes)
        json.member("valueBytes", workload.valueBytes)
        json.member("value", workload.value.rawValue)
        json.member("writePercent", workload.writePercent)
        if case .zipfian(let skew) = workload.distribution { json.member("zipfianSkew", skew) }
        json.member("connections", workload.connections)
        json.member("depth", workload.depth)
        json.member("rate", workload.rate)
        json.member("seconds", workload.seconds)
        json.member("warmUpSeconds", workload.warmUpSeconds)
    }

    private static func write(
        _ measured: Outcome.Measured,
        _ target: LoadTest.Target,
        _ json: inout JSONWriter
    ) {
        let tally = measured.tally
        json.member("seconds", measured.seconds)
        json.member("ops", tally.replies)
        json.member("opsPerSecond", measured.opsPerSecond)
        json.member("hits", tally.hits)
        json.member("misses", tally.misses)
        json.member("stored", tally.stored)
        json.member("wrongSizes", tally.wrongSizes)
        json.object("errors") { json in
            for (status, count) in tally.errors { json.member(name(ofStatus: status), count) }
            for (kind, count) in tally.failures { json.member(kind, count) }
        }
        json.member("notBegun", tally.notBegun)
        json.object("latencyMicroseconds") { json in
            json.object("all") { write(tally.all, &$0) }
            json.object("get") { write(tally.reads, &$0) }
            json.object("set") { write(tally.writes, &$0) }
        }
        if !target.serverPIDs.isEmpty {
            json.object("server") { json in
                json.array("pids") { for pid in target.serverPIDs { $0.value(pid) } }
                json.member("allowedCores", Affinity.list(ofProcess: target.serverPIDs[0]))
                json.member("cpuNanosecondsPerOp", measured.serverPerOp)
                json.member("utilisation", measured.serverUse)
            }
        }
        json.object("driver") { json in
            json.member("allowedCores", Affinity.list(ofProcess: getpid()))
            json.member("cpuNanosecondsPerOp", measured.driverPerOp)
            json.member("utilisation", measured.driverUse)
            json.member("lateMicrosecondsMax", Double(measured.lagMax) / 1_000)
        }
        json.array("coresBusy") { for share in measured.coresBusy { $0.value(share) } }
        guard let persistence = measured.persistence else { return }
        json.object("persistence") { json in
            json.member("samples", persistence.samples)
            json.member("unpersistedAfterHalfASecond", persistence.late)
            json.member("pending", persistence.pending)
            json.member("ageSecondsMax", Double(persistence.ageMax) / 1e9)
        }
    }

    private static func write(_ histogram: Histogram<UInt64>, _ json: inout JSONWriter) {
        json.member("count", histogram.totalCount)
        guard histogram.totalCount > 0 else { return }
        json.member("mean", histogram.mean / 1_000)
        for (name, value) in percentiles {
            json.member(name, Double(histogram.valueAtPercentile(value)) / 1_000)
        }
        json.member("max", Double(histogram.max) / 1_000)
    }
}
