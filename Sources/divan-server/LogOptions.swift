internal import ArgumentParser
internal import LinuxPlatform
internal import Logging
internal import Seams

/// The options of the log.
struct LogOptions: ParsableArguments {
    @Option(
        name: .customLong("log-level"),
        help: "Lowest severity that is logged: \(LogLevel.names)."
    )
    var level = LogLevel.info

    @Option(name: .customLong("log-format"), help: "Form of the log's lines: text or json.")
    var format = LogFormat.text

    @Option(
        name: .customLong("log-limit"),
        help: ArgumentHelp(
            "Most megabytes of log, if standard error is a file: half as many in it and in FILE.1.",
            discussion: "A full file is renamed to FILE.1, and a new one begun.",
            valueName: "megabytes"
        )
    )
    var megabytesMax: Int?

    @Option(
        name: .customLong("slow-operation-ms"),
        help: ArgumentHelp(
            "Milliseconds from which on a client's operation is logged as slow.",
            valueName: "milliseconds"
        )
    )
    var slowMilliseconds: UInt64 = 500

    func validate() throws {
        if let megabytesMax, !(1...1_048_576).contains(megabytesMax) {
            throw ValidationError("--log-limit must be 1 MB to 1048576 MB")
        }
        if !(1...86_400_000).contains(slowMilliseconds) {
            throw ValidationError("--slow-operation-ms must be 1 to 86400000")
        }
    }
}

extension LogFormat: ExpressibleByArgument {}

/// The log's severities by their names in options.
enum LogLevel: String, CaseIterable, ExpressibleByArgument {
    case debug
    case info
    case warning
    case error

    static var names: String { allCases.map(\.rawValue).joined(separator: ", ") }

    var severity: Severity {
        switch self {
        case .debug: .debug
        case .info: .info
        case .warning: .warning
        case .error: .error
        }
    }
}

/// Forwards the HTTP framework's log to the trace.
struct FrameworkLog: LogHandler {
    private let trace: any Trace
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level = .warning

    static func logger(_ trace: any Trace) -> Logger {
        Logger(label: "admin") { _ in FrameworkLog(trace: trace) }
    }

    private init(trace: any Trace) { self.trace = trace }

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
