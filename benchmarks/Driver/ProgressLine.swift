internal import Foundation

/// The progress line on standard error: updated in place on a terminal, a new line a second
/// elsewhere.
final class ProgressLine {
    private let isQuiet: Bool
    private let isTerminal = isatty(STDERR_FILENO) != 0
    private var lastShown = Date.distantPast
    private var isDirty = false

    init(isQuiet: Bool) {
        self.isQuiet = isQuiet
    }

    func show(_ what: String, rate: Double, elapsed: Double, of seconds: Double) {
        let time = String(format: "%4.1f of %.0f s", elapsed, seconds)
        show("\(what)  \(time)  \(Report.grouped(rate)) ops/s")
    }

    func show(_ what: String, _ done: Int, of all: Int) {
        show("\(what)  \(Report.grouped(Double(done))) of \(Report.grouped(Double(all)))")
    }

    func show(_ text: String) {
        guard !isQuiet, Date.now.timeIntervalSince(lastShown) >= (isTerminal ? 0.1 : 0.99) else {
            return
        }
        lastShown = .now
        isDirty = isTerminal
        write(isTerminal ? "\r\u{1b}[K\(text)" : "\(text)\n")
    }

    /// Clears the line for other output.
    func clear() {
        if isDirty { write("\r\u{1b}[K") }
        isDirty = false
        lastShown = .distantPast
    }

    private func write(_ text: String) {
        // If the terminal was closed, the write fails and the load continues to its report.
        try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
    }
}
