/// The severity of an event.
package enum Severity: Int, Comparable, Sendable {
    case debug
    case info
    case warning
    case error
    /// A bug in Divan, or a fault of the disk. In the simulator it fails the run.
    case fault

    package static func < (one: Severity, other: Severity) -> Bool { one.rawValue < other.rawValue }
}

/// The destination of log events: the log on Linux, the transcript in the simulator.
///
/// Events never contain a secret, or a document's key or value.
package protocol Trace: Sendable {
    /// Events below this severity are not logged; check it before building an expensive message.
    var threshold: Severity { get }
    func log(_ severity: Severity, _ module: String, message: String)
    /// An event about a bucket; without a bucket, or in a trace without fields, like the other `log`.
    func log(_ severity: Severity, _ module: String, bucket: String?, message: String)
    /// Sets the name by which the cluster knows the node whose events these are.
    func identify(node: String)
}

extension Trace {
    package func log(_ severity: Severity, _ module: String, bucket: String?, message: String) {
        log(severity, module, message: message)
    }

    package func identify(node: String) {}
}

extension Trace {
    package func debug(
        _ module: String,
        bucket: String? = nil,
        _ message: @autoclosure () -> String
    ) {
        if threshold <= .debug { log(.debug, module, bucket: bucket, message: message()) }
    }

    package func info(
        _ module: String,
        bucket: String? = nil,
        _ message: @autoclosure () -> String
    ) {
        if threshold <= .info { log(.info, module, bucket: bucket, message: message()) }
    }

    package func warning(
        _ module: String,
        bucket: String? = nil,
        _ message: @autoclosure () -> String
    ) {
        if threshold <= .warning { log(.warning, module, bucket: bucket, message: message()) }
    }

    package func error(
        _ module: String,
        bucket: String? = nil,
        _ message: @autoclosure () -> String
    ) {
        if threshold <= .error { log(.error, module, bucket: bucket, message: message()) }
    }

    package func fault(_ module: String, _ message: @autoclosure () -> String) {
        log(.fault, module, message: message())
    }
}
