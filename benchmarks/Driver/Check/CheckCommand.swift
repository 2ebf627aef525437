internal import ArgumentParser
internal import Bytes
internal import DivanClient
internal import Foundation
internal import JSON
internal import LinuxPlatform
internal import Seams

/// `divan-bench check`: verifies that a cluster keeps acknowledged writes through failures.
struct CheckCommand: LoadCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Write versions to keys, read them back, and report losses.",
        discussion: """
            Run it while nodes are killed, failed over and rebalanced. Each key has one writer, \
            which reads it after each write. At the end, and on Ctrl-C, SIGTERM or SIGHUP, all \
            keys are read once more. Exits with 1 if an acknowledged version is lost, if a read \
            found a version and a later read did not, or if a read found a value that was never \
            written. Writes without --durability may be lost if a node fails; durable writes never.
            """
    )

    @OptionGroup var cluster: ClusterOptions

    @Option(help: "Keys.")
    var keys = 100

    @Option(help: "The prefix of the keys: concurrent checks need different ones.")
    var prefix = "check"

    @Option(help: "Operations a second, at most.")
    var rate = 1_000.0

    @Option(help: "Seconds.")
    var seconds = 10.0

    @OptionGroup var result: ResultOptions

    /// The timeout of the final reads, which may have to wait for a failover.
    private static let lastLookNanoseconds: UInt64 = 20_000_000_000

    func test() throws(BenchError) {
        let isSensible =
            keys > 0 && rate > 0 && rate.isFinite && seconds > 0 && cluster.timeout > 0
        guard isSensible else {
            throw BenchError("--keys, --rate, --seconds and --timeout must be more than 0")
        }
        let end = Interruption()
        let environment = LinuxEnvironment.make(reactors: 1, logLevel: .error).environment
        let lane = environment.network.lane(ofReactor: 0)
        let load = CheckLoad(
            keys: (0..<keys).map { "\(prefix)-\($0)" },
            rate: rate,
            level: try cluster.level(),
            timeoutMilliseconds: cluster.timeout,
            try cluster.open(environment),
            environment
        )
        let progress = ProgressLine(isQuiet: result.quiet)
        lane.post { load.begin() }
        let start = Date.now
        while Date.now.timeIntervalSince(start) < seconds, !end.hasCome {
            usleep(50_000)
            let found = lane.ask { load.found }
            progress.show("\(found.writes) writes, \(found.reads) reads")
        }
        lane.post { load.stop() }
        while lane.ask({ load.underWay }) > 0 { usleep(10_000) }
        let deadline = environment.time.monotonicNanoseconds() + CheckCommand.lastLookNanoseconds
        lane.post { load.readAll(until: deadline) }
        while lane.ask({ load.underWay }) > 0 { usleep(10_000) }
        progress.clear()
        let report = CheckReport(found: lane.ask { load.found })
        try result.write(report.text, json: report.json)
        if let failure = report.failure { throw BenchError(failure) }
    }
}

/// The result of a check, as text and as JSON.
struct CheckReport {
    let found: CheckLoad.Found

    private var refused: [(code: String, count: Int, example: String)] {
        found.refused.map { ($0.key.rawValue, $0.value, found.examples[$0.key] ?? "") }
            .sorted { ($0.count, $1.code) > ($1.count, $0.code) }
    }

    /// A sentence on the first violation; nil if there is none.
    var failure: String? {
        if !found.faults.isEmpty {
            let first = found.faults[0]
            return "\(found.faults.count) reads found invalid versions, first at "
                + "\(first.key): \(CheckReport.sentence(first.fault))"
        }
        return found.unread > 0
            ? "\(found.unread) keys could not be read at the end" : nil
    }

    private static func sentence(_ fault: CheckedKey.Fault) -> String {
        switch fault {
        case .lost(let acknowledged, let found):
            "version \(acknowledged) was acknowledged, but a read found \(found)"
        case .retracted(let seen, let found):
            "a read found version \(seen), and a later one found \(found)"
        case .strange(let text): "a read found a value that was never written: \(text.prefix(200))"
        }
    }

    var text: String {
        var lines = [
            "\(Report.grouped(Double(found.writes))) writes acknowledged, "
                + "\(Report.grouped(Double(found.reads))) reads, slowest "
                + String(format: "%.0f ms", Double(found.slowestNanoseconds) / 1e6)
        ]
        for each in refused {
            lines.append("  \(Report.grouped(Double(each.count))) x \(each.code)")
            lines.append("      \(each.example)")
        }
        for (key, fault) in found.faults.prefix(20) {
            lines.append("  \(key): \(CheckReport.sentence(fault))")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    var json: [UInt8] {
        JSONWriter.text { json in
            json.object { json in
                json.member("writes", found.writes)
                json.member("reads", found.reads)
                json.object("refused") { json in
                    for each in refused { json.member(each.code, each.count) }
                }
                json.member("slowestMilliseconds", Double(found.slowestNanoseconds) / 1e6)
                json.member("unread", found.unread)
                json.array("faults") { json in
                    for (key, fault) in found.faults {
                        json.object { json in
                            json.member("key", key)
                            json.member("what", CheckReport.sentence(fault))
                        }
                    }
                }
            }
        } + Array("\n".utf8)
    }
}
