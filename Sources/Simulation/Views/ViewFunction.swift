/// A key of a row, in the order of keys: null, numbers, strings, arrays.
///
/// Strings are of small ASCII letters, digits and "-", whose order in ICU's root collation is that of
/// their bytes.
package enum ViewKey: Hashable, Comparable, Sendable {
    case null
    case number(Int)
    case text(String)
    case list([Int])

    package static func < (one: ViewKey, other: ViewKey) -> Bool {
        switch (one, other) {
        case (.number(let one), .number(let other)): one < other
        case (.text(let one), .text(let other)): one.utf8.lexicographicallyPrecedes(other.utf8)
        case (.list(let one), .list(let other)): one.lexicographicallyPrecedes(other)
        default: one.rank < other.rank
        }
    }

    private var rank: Int {
        switch self {
        case .null: 0
        case .number: 1
        case .text: 2
        case .list: 3
        }
    }

    /// The JSON text.
    package var json: String {
        switch self {
        case .null: "null"
        case .number(let number): "\(number)"
        case .text(let text): "\"\(text)\""
        case .list(let list): "[" + list.map { "\($0)" }.joined(separator: ",") + "]"
        }
    }
}

/// A row without its document; values are whole numbers, or null.
package struct ViewRow: Hashable, Sendable {
    package var key: ViewKey
    package var value: Int?

    package init(_ key: ViewKey, _ value: Int?) {
        self.key = key
        self.value = value
    }
}

/// The map functions of simulated views: what the simulated script process runs, and what the checker
/// expects.
///
/// - They emit nothing for counters and for the probes that are written at the end: values without a
///   point. So every value that a checker has to consider was sent by a client.
package enum ViewFunction: CaseIterable, Sendable {
    /// One row for each document, by its ID.
    case identity
    /// One row for each document, whose group changes with its value.
    case grouped
    /// No row to five rows, some of them with equal keys.
    case several
    /// One row for each document, in one of seven groups.
    case sevens
    /// Two rows for each document, whose keys many documents share.
    case pairs
    /// One row for each document with an odd value.
    case odd

    /// The text that names the function in a design document.
    package var source: String {
        switch self {
        case .identity: "function (doc, meta) { emit(meta.id, doc); }"
        case .grouped: "function (doc, meta) { emit([doc % 5, doc], doc); }"
        case .several: "function (doc) { for (let i = 0; i < doc % 6; i++) emit([i >> 1], i); }"
        case .sevens: "function (doc, meta) { emit([doc % 7, doc], doc); }"
        case .pairs: "function (doc) { for (let i = 0; i < 2; i++) emit([i, doc % 4], doc); }"
        case .odd: "function (doc) { if (doc % 2 == 1) emit([doc % 3], doc); }"
        }
    }

    /// The rows of a document in the order in which they are emitted; `text` is nil for a document that
    /// does not exist.
    package func rows(id: String, text: String?) -> [ViewRow] {
        guard let number = text.flatMap(ViewFunction.number) else { return [] }
        switch self {
        case .identity: return [ViewRow(.text(id), number)]
        case .grouped: return [ViewRow(.list([number % 5, number]), number)]
        case .several:
            return (0..<(number % 6)).map { ViewRow(.list([$0 >> 1]), $0) }
        case .sevens: return [ViewRow(.list([number % 7, number]), number)]
        case .pairs: return (0..<2).map { ViewRow(.list([$0, number % 4]), number) }
        case .odd: return number % 2 == 1 ? [ViewRow(.list([number % 3]), number)] : []
        }
    }

    /// The number that stands for a client's value ("client.count"); nil for any other value.
    static func number(_ text: String) -> Int? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, let client = Int(parts[0]), let count = Int(parts[1]) else {
            return nil
        }
        return client * 1_000_000 + count
    }
}

/// A view of the simulated design documents.
package struct SimulatedView: Hashable, Sendable {
    package enum Reduce: String, Sendable {
        case count = "_count"
        case sum = "_sum"
        /// A function that only script processes can compute.
        case largest = "function (keys, values) { return Math.max.apply(null, values); }"
    }

    package let document: String
    package let name: String
    package let map: ViewFunction
    package let reduce: Reduce?

    package init(document: String, name: String, map: ViewFunction, reduce: Reduce?) {
        self.document = document
        self.name = name
        self.map = map
        self.reduce = reduce
    }

    /// `ids` and `total` share an index, and so do `sums` and `largest`.
    package static let all = [
        SimulatedView(document: "plain", name: "ids", map: .identity, reduce: nil),
        SimulatedView(document: "plain", name: "several", map: .several, reduce: .count),
        SimulatedView(document: "reduced", name: "total", map: .identity, reduce: .sum),
        SimulatedView(document: "reduced", name: "sums", map: .grouped, reduce: .sum),
        SimulatedView(document: "reduced", name: "largest", map: .grouped, reduce: .largest),
    ]

    static let documents = ["plain", "reduced"]

    /// The body of a design document.
    static func body(of document: String) -> [UInt8] {
        let views = all.filter { $0.document == document }.map { view in
            let reduce = view.reduce.map { #","reduce":"\#($0.rawValue)""# } ?? ""
            return #""\#(view.name)":{"map":"\#(view.map.source)"\#(reduce)}"#
        }
        return Array((#"{"views":{"# + views.joined(separator: ",") + "}}").utf8)
    }
}
