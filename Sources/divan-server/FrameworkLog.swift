import Logging
import Seams

/// Forwards the HTTP framework's log to the trace.
struct FrameworkLog: LogHandler {
    private let trace: any Trace
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level = .warning

    static func logger(_ trace: any Trace) -> Logger {
        Logger(label: "admin") { _ in FrameworkLog(trace: trace) }
    }

    private init(trace: any Trace) {
        self.trace = trace
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let severity: Severity =
            switch event.level {
            case .trace, .debug: .debug
            case .info, .notice: .info
            case .warning: .warning
            case .error, .critical: .error
            }
        if trace.threshold <= severity { trace.log(severity, "admin", message: "\(event.message)") }
    }
}
