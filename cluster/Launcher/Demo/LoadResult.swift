internal import Foundation

/// What the load test measured, as it grows and as a table.
struct LoadResult {
    private(set) var reads = LatencyHistogram()
    private(set) var writes = LatencyHistogram()
    /// Requests the node put off, short of memory.
    private(set) var putOff = 0
    private(set) var failures: [UInt16: Int] = [:]
    var nanoseconds: UInt64 = 0

    var count: UInt64 { reads.count + writes.count }

    mutating func record(_ kind: LoadConnection.Kind, status: UInt16, nanoseconds: UInt64) {
        switch status {
        case Status.success: break
        case Status.temporaryFailure: putOff += 1
        default: failures[status, default: 0] += 1
        }
        switch kind {
        case .read: reads.record(nanoseconds)
        case .write: writes.record(nanoseconds)
        }
    }

    var table: String {
        var all = reads
        all.add(writes)
        let titles = ["ops/s", "p50 ms", "p95 ms", "p99 ms", "p99.9 ms", "max ms"]
        var lines = [row("", titles), row("GET", reads), row("SET", writes), row("both", all)]
        if putOff > 0 { lines.append("  \(putOff) requests were put off for want of memory") }
        for (status, count) in failures.sorted(by: { $0.key < $1.key }) {
            lines.append("  \(count) requests failed with status \(status)")
        }
        return lines.joined(separator: "\n")
    }

    private func row(_ name: String, _ latencies: LatencyHistogram) -> String {
        let rate = Double(latencies.count) / (Double(max(1, nanoseconds)) / 1e9)
        let cells = [0.5, 0.95, 0.99, 0.999].map { latencies.percentile($0) } + [latencies.maximum]
        return row(name, [grouped(rate)] + cells.map { String(format: "%.3f", Double($0) / 1e6) })
    }

    private func row(_ name: String, _ cells: [String]) -> String {
        func right(_ text: String, _ width: Int) -> String {
            String(repeating: " ", count: max(0, width - text.count)) + text
        }
        return "  " + name.padding(toLength: 6, withPad: " ", startingAt: 0)
            + cells.map { right($0, 11) }.joined()
    }
}

/// A rate as people read it: 123,456.
func grouped(_ rate: Double) -> String {
    var digits = Substring(String(Int(rate.rounded())))
    var groups: [Substring] = []
    while digits.count > 3 {
        groups.insert(digits.suffix(3), at: 0)
        digits = digits.dropLast(3)
    }
    return ([digits] + groups).joined(separator: ",")
}

/// How the load test gets on: one line that keeps changing, or, in a file, one line a second.
struct ProgressLine {
    private let isTerminal = isatty(1) == 1
    private var shownAt: UInt64 = 0
    private var countThen: UInt64 = 0

    mutating func show(_ result: LoadResult, elapsed: UInt64, of length: UInt64) {
        let period: UInt64 = isTerminal ? 200_000_000 : 1_000_000_000
        guard elapsed - shownAt >= period else { return }
        let rate = Double(result.count - countThen) / (Double(elapsed - shownAt) / 1e9)
        let width = 20
        let done = min(width, Int(elapsed * UInt64(width) / max(1, length)))
        let bar = String(repeating: "#", count: done) + String(repeating: ".", count: width - done)
        let time = String(format: "%5.1f s", Double(elapsed) / 1e9)
        let line = "  [\(bar)] \(time)   \(grouped(rate)) ops/s"
        print(isTerminal ? "\r\u{1b}[2K" + line : line, terminator: isTerminal ? "" : "\n")
        fflush(nil)
        (shownAt, countThen) = (elapsed, result.count)
    }

    func finish() {
        if isTerminal { print() }
    }
}
