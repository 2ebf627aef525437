internal import Bytes
package import Seams

/// A trace that stores its lines.
///
/// It stores no more than `linesMax`, so that a fuzzer can run for hours.
package final class RecordingTrace: Trace {
    private struct Line: Sendable {
        let severity: Severity
        let module: String
        let message: String
    }

    private static let linesMax = 10_000

    package let threshold: Severity
    private let stored = Guarded<[Line]>([])

    /// An empty trace; with the threshold `.fault` it stores only faults.
    package init(threshold: Severity = .info) { self.threshold = threshold }

    package func log(_ severity: Severity, _ module: String, message: String) {
        stored.withLock { stored in
            guard stored.count < RecordingTrace.linesMax else { return }
            stored.append(Line(severity: severity, module: module, message: message))
        }
    }

    /// The lines so far, as "module: message": of one module or, with nil, of all, and of this
    /// severity or a higher one.
    package func lines(
        of module: String? = nil,
        atLeast severity: Severity = .debug
    ) -> [String] {
        stored.withLock { stored in
            stored.filter { $0.severity >= severity && $0.module == module ?? $0.module }
                .map { "\($0.module): \($0.message)" }
        }
    }
}
