/// Prometheus's text format.
///
/// - Every name has one line of help and one of its type, before its samples, and no pair of name and
///   labels occurs twice; otherwise readers reject the whole page.
/// - A name without a sample is left out.
package struct MetricsText {
    package enum Kind: String {
        case gauge
        case counter
        /// A counter, or a total, whose name is Couchbase's and contradicts Prometheus's rules for names.
        case untyped
    }

    package struct Sample {
        let labels: [(name: String, value: String)]
        let value: String

        package init(_ labels: [(name: String, value: String)], _ value: UInt64) {
            self.labels = labels
            self.value = "\(value)"
        }

        /// Whole numbers are written without a point.
        package init(_ labels: [(name: String, value: String)], _ value: Double) {
            self.labels = labels
            self.value = Int64(exactly: value).map(String.init) ?? "\(value)"
        }
    }

    package private(set) var lines: [String] = []

    package init() {}

    /// Adds a name with its samples.
    package mutating func add(
        _ name: String,
        _ kind: Kind,
        _ help: String,
        _ samples: [Sample]
    ) {
        guard !samples.isEmpty else { return }
        lines.append("# HELP \(name) \(Self.escape(help, quotes: false))")
        lines.append("# TYPE \(name) \(kind.rawValue)")
        for sample in samples {
            let labels = sample.labels.map { "\($0.name)=\"\(Self.escape($0.value))\"" }
            let list = labels.isEmpty ? "" : "{\(labels.joined(separator: ","))}"
            lines.append("\(name)\(list) \(sample.value)")
        }
    }

    mutating func add(_ name: String, _ kind: Kind, _ help: String, _ value: UInt64) {
        add(name, kind, help, [Sample([], value)])
    }

    /// The value of a label, which may have any characters; help has no quotes around it.
    private static func escape(_ text: String, quotes: Bool = true) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\"" where quotes: escaped += "\\\""
            case "\n": escaped += "\\n"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
