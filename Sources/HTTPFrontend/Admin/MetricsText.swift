internal import Bytes
package import Vocabulary

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
        case histogram
    }

    package struct Sample {
        let labels: [(name: String, value: String)]
        let value: String
        /// Follows the name of the family: a histogram's samples have three names.
        var suffix = ""

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
        help: String,
        samples: [Sample]
    ) {
        guard !samples.isEmpty else { return }
        lines.append("# HELP \(name) \(Self.escape(help, quotes: false))")
        lines.append("# TYPE \(name) \(kind.rawValue)")
        for sample in samples {
            let labels = sample.labels.map { "\($0.name)=\"\(Self.escape($0.value))\"" }
            let list = labels.isEmpty ? "" : "{\(labels.joined(separator: ","))}"
            lines.append("\(name)\(sample.suffix)\(list) \(sample.value)")
        }
    }

    mutating func add(_ name: String, _ kind: Kind, help: String, value: UInt64) {
        add(name, kind, help: help, samples: [Sample([], value)])
    }

    /// The bounds of exported buckets in nanoseconds: each power of two from 2 us to 17 s, where buckets of
    /// `LatencyScale` begin.
    private static let bounds = (11...34).map { UInt64(1) << $0 }
    private static let quantiles = ["0.5", "0.99"]

    /// Adds the histograms of a family, and two quantiles of each: these are more exact than a reader can
    /// compute them from the exported buckets.
    package mutating func add(_ family: LatencyFamily, _ readings: [LatencyReading]) {
        let name = family.rawValue
        add(
            name,
            .histogram,
            help: family.help,
            samples: readings.flatMap { reading in
                Self.samples(reading.labels, reading.histogram)
            }
        )
        let stem = name.dropLast("_seconds".count)
        add(
            "\(stem)_quantile_seconds",
            .gauge,
            help: "Quantiles of all latencies in \(name), within 3.2 %.",
            samples: readings.flatMap { reading in
                Self.quantiles.compactMap { text in
                    let value = Double(text).flatMap { reading.histogram.quantile($0) }
                    return value.map {
                        .init(reading.labels + [("quantile", text)], Self.seconds($0))
                    }
                }
            }
        )
    }

    private static func samples(
        _ labels: [(name: String, value: String)],
        _ histogram: LatencyHistogram
    ) -> [Sample] {
        var samples = bounds.map { bound in
            Sample(labels + [("le", "\(seconds(bound))")], histogram.count(below: bound))
        }
        let count = histogram.count
        samples.append(Sample(labels + [("le", "+Inf")], count))
        for index in samples.indices { samples[index].suffix = "_bucket" }
        var sum = Sample(labels, seconds(histogram.sumNanoseconds))
        sum.suffix = "_sum"
        var total = Sample(labels, count)
        total.suffix = "_count"
        return samples + [sum, total]
    }

    private static func seconds(_ nanoseconds: UInt64) -> Double { Double(nanoseconds) / 1e9 }

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
