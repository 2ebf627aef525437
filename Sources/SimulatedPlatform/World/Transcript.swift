package import Seams

/// The log of a world's events, and their hash.
///
/// - Contains only data that depends on the seed: no real time, no memory addresses.
/// - A trace event of severity `fault` fails the run: `fault` has the first.
package final class Transcript: @unchecked Sendable {  // tidy:allow one thread
    package enum Event: Hashable, Sendable {
        case started(Int)
        case exited
        case crashed
        case lostPower
        case broke(Fault)
        /// A trace event of a process.
        case told(Severity, module: String, String)
        /// A line of the world's driver.
        case noted(String)
    }

    /// One event, its time and its host (`-` for the world's driver).
    package struct Line: Hashable, Sendable, CustomStringConvertible {
        package let nanoseconds: UInt64
        package let host: String
        package let event: Event

        package var description: String {
            let (seconds, micros) = (nanoseconds / 1_000_000_000, nanoseconds / 1_000 % 1_000_000)
            let digits = String(micros + 1_000_000).dropFirst()
            return "\(seconds).\(digits) \(host) \(event)"
        }
    }

    /// The newest lines, at least `linesMax` if there were as many.
    package private(set) var lines: [Line] = []
    /// The first trace event of severity `fault`; nil if there was none.
    package private(set) var fault: Line?
    /// The number of newest lines that are kept.
    package var linesMax = 10_000
    private let queue: RunQueue

    init(queue: RunQueue) {
        self.queue = queue
    }

    /// A hash of all events: two runs are equal if their digests are.
    package var digest: UInt64 { queue.digest }

    /// Logs a line of the world's driver.
    package func note(_ text: String) { append(host: "-", .noted(text)) }

    func append(host: String, _ event: Event) {
        let line = Line(nanoseconds: queue.time.now, host: host, event: event)
        if case .told(.fault, _, _) = event, fault == nil { fault = line }
        fold(line)
        lines.append(line)
        if lines.count >= 2 * linesMax { lines.removeFirst(lines.count - linesMax) }
    }

    private func fold(_ line: Line) {
        queue.fold(line.nanoseconds)
        var value: UInt64 = 0
        for byte in line.description.utf8 { value = value &* 31 &+ UInt64(byte) }
        queue.fold(value)
    }
}

/// The `Trace` of one process: logs its events in the transcript.
struct TranscriptTrace: Trace {
    let process: SimulatedProcess
    let transcript: Transcript
    let threshold: Severity

    func log(_ severity: Severity, _ module: String, message: String) {
        guard severity >= threshold, !process.isDead else { return }
        transcript.append(
            host: process.host.address,
            .told(severity, module: module, message)
        )
    }
}
