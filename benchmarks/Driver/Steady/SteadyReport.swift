internal import DivanClient
internal import Foundation
internal import Histogram
internal import JSON

/// The result of a steady load, as text and as JSON.
struct SteadyReport {
    let tally: SteadyTally
    let plan: SteadyLoad.Plan
    let seconds: Double
    let skipped: Int
    /// The lag of replicas, if requested.
    let replication: ReplicationSampler.Found?

    private var errors: [(code: String, count: Int, example: String)] {
        tally.errors.map { ($0.key.rawValue, $0.value, tally.examples[$0.key] ?? "") }
            .sorted { ($0.count, $1.code) > ($1.count, $0.code) }
    }

    // MARK: Text

    var text: String {
        let loop =
            plan.rate > 0
            ? "open loop at \(Report.grouped(plan.rate)) ops/s"
            : "closed loop, \(plan.underWayMax) at a time"
        let durability = plan.durability.map { ", writes \($0)" } ?? ""
        var lines = [
            "\(plan.workload.name)  \(loop), \(Self.trimmed(plan.workload.writePercent)) % SET"
                + durability,
            "  \(Report.grouped(Double(tally.succeeded))) succeeded in "
                + "\(Self.trimmed(seconds)) s (\(Report.grouped(Double(tally.succeeded) / seconds))"
                + " ops/s), \(Report.grouped(Double(tally.failed))) failed",
        ]
        for (name, histogram) in [("GET", tally.reads), ("SET", tally.writes)]
        where histogram.totalCount > 0 {
            lines.append(
                "  \(name)  p50 \(Self.milliseconds(histogram.valueAtPercentile(50))) ms, "
                    + "p99 \(Self.milliseconds(histogram.valueAtPercentile(99))) ms, "
                    + "max \(Self.milliseconds(histogram.max)) ms"
            )
        }
        lines += [
            "  longest time without any success: \(Self.milliseconds(tally.gapMax)) ms",
            "  longest time that one key could not be read: "
                + "\(Self.milliseconds(tally.readOutageMax)) ms, "
                + "written: \(Self.milliseconds(tally.writeOutageMax)) ms",
            "  times that a key was not served for over a second: \(tally.outagesOverASecond)",
        ]
        if let replication {
            lines.append(
                "  replica behind  p50 \(Self.milliseconds(replication.lags.valueAtPercentile(50))) ms, "
                    + "p99 \(Self.milliseconds(replication.lags.valueAtPercentile(99))) ms, "
                    + "max \(Self.milliseconds(replication.lags.max)) ms, to within "
                    + "\(Self.milliseconds(replication.questions.valueAtPercentile(99))) ms (p99)"
            )
        }
        if skipped > 0 { lines.append("  \(skipped) were not begun: too many under way") }
        for error in errors {
            lines.append("  \(Report.grouped(Double(error.count))) x \(error.code)")
            lines.append("      \(error.example)")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func milliseconds(_ nanoseconds: UInt64) -> String {
        String(format: "%.2f", Double(nanoseconds) / 1e6)
    }

    private static func trimmed(_ number: Double) -> String {
        number == number.rounded() ? "\(Int(number))" : "\(number)"
    }

    // MARK: JSON

    var json: [UInt8] {
        JSONWriter.text { json in
            json.object { json in
                json.member("workload", plan.workload.name)
                json.member("rate", plan.rate)
                json.member("seconds", seconds)
                json.member("writePercent", plan.workload.writePercent)
                if let durability = plan.durability { json.member("durability", "\(durability)") }
                json.member("succeeded", tally.succeeded)
                json.member("failed", tally.failed)
                json.member("skipped", skipped)
                json.object("errors") { json in
                    for error in errors { json.member(error.code, error.count) }
                }
                json.object("getMilliseconds") { Self.write(tally.reads, &$0) }
                json.object("setMilliseconds") { Self.write(tally.writes, &$0) }
                json.member("longestGapMilliseconds", Double(tally.gapMax) / 1e6)
                json.member("longestReadOutageMilliseconds", Double(tally.readOutageMax) / 1e6)
                json.member("longestWriteOutageMilliseconds", Double(tally.writeOutageMax) / 1e6)
                json.member("outagesOverASecond", tally.outagesOverASecond)
                json.member("unwrittenKeys", tally.unwrittenKeys)
                if let time = tally.writtenAgainAt {
                    json.member("writtenAgainAtNanoseconds", Int(time))
                }
                if let replication {
                    json.object("replication") { json in
                        json.member("failed", replication.failed)
                        json.member("givenUp", replication.givenUp)
                        json.object("lagMilliseconds") { Self.write(replication.lags, &$0) }
                        json.object("resolutionMilliseconds") {
                            Self.write(replication.questions, &$0)
                        }
                    }
                }
                json.array("timeline") { json in
                    for slice in tally.slices {
                        json.object { json in
                            json.member("succeeded", slice.succeeded)
                            json.member("failed", slice.failed)
                            json.member("slowestMilliseconds", Double(slice.slowest) / 1e6)
                        }
                    }
                }
            }
        } + Array("\n".utf8)
    }

    private static func write(_ histogram: Histogram<UInt64>, _ json: inout JSONWriter) {
        json.member("count", histogram.totalCount)
        guard histogram.totalCount > 0 else { return }
        json.member("p50", Double(histogram.valueAtPercentile(50)) / 1e6)
        json.member("p99", Double(histogram.valueAtPercentile(99)) / 1e6)
        json.member("max", Double(histogram.max) / 1e6)
    }
}
