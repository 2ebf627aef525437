package import Seams

/// What happened in a world, line by line, and the number it comes to.
///
/// - Only what depends on the seed is in here: no real time, no addresses in memory.
/// - A fault that a program reports fails the run: `fault` has the first.
package final class Transcript: @unchecked Sendable {  // tidy:allow one thread
    package enum Event: Hashable, Sendable {
        case started(Int)
        case exited
        case crashed
        case lostPower
        case broke(Fault)
        case told(Severity, module: String, String)
        /// Of whoever drives the world.
        case noted(String)
    }

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

    package private(set) var lines: [Line] = []
    /// The first line that a program told as our own bug.
    package private(set) var fault: Line?
    /// How many lines are kept: the newest.
    package var linesMax = 10_000
    private let queue: RunQueue

    init(queue: RunQueue) {
        self.queue = queue
    }

    /// Everything that happened, as one number.
    package var digest: UInt64 { queue.digest }

    /// A line of whoever drives the world.
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

/// Where one process tells its events.
struct TranscriptTrace: Trace {
    let process: SimulatedProcess
    let transcript: Transcript
    let threshold: Severity

    func tell(_ severity: Severity, _ module: String, _ message: String) {
        guard severity >= threshold, !process.isDead else { return }
        transcript.append(
            host: process.host.address,
            .told(severity, module: module, message)
        )
    }
}
