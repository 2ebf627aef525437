internal import Bytes
internal import Foundation

/// One document to load: its key and its JSON text.
struct DemoDocument {
    let key: [UInt8]
    let json: [UInt8]
}

/// The documents of the demo: the countries, currencies, languages and subdivisions of Debian's
/// iso-codes, and invented orders from those countries.
struct DemoCorpus {
    let facts: [DemoDocument]
    let orders: [DemoDocument]

    var all: [DemoDocument] { facts + orders }

    var description: String {
        "\(facts.count) countries, currencies, languages and subdivisions (iso-codes), and "
            + "\(orders.count) made-up orders"
    }

    /// Enough to spread the load test over memory, few enough to load at once.
    private static let orderCount = 20_000

    init(folder: String = "/usr/share/iso-codes/json") throws {
        typealias Entries = [[String: String]]
        func entries(_ standard: String) throws -> Entries {
            let path = "\(folder)/iso_\(standard).json"
            guard let data = FileManager.default.contents(atPath: path) else {
                throw Refusal("\(path) is missing.", cure: "make deps installs it (iso-codes).")
            }
            return try JSONDecoder().decode([String: Entries].self, from: data)[standard] ?? []
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        func documents(_ type: String, _ entries: Entries, key: String) throws -> [DemoDocument] {
            try entries.compactMap { entry in
                guard let code = entry[key] else { return nil }
                var fields = entry
                fields["type"] = type
                if type == "subdivision" { fields["country"] = "country::\(code.prefix(2))" }
                let json = [UInt8](try encoder.encode(fields))
                return DemoDocument(key: Array("\(type)::\(code)".utf8), json: json)
            }
        }
        let countries = try entries("3166-1")
        facts =
            try documents("country", countries, key: "alpha_2")
            + documents("currency", try entries("4217"), key: "alpha_3")
            + documents("language", try entries("639-3"), key: "alpha_3")
            + documents("subdivision", try entries("3166-2"), key: "code")
        var random = SeededRandom(seed: 1)
        let codes = countries.compactMap { $0["alpha_2"] }
        orders = try (0..<DemoCorpus.orderCount).map { number in
            let order = Order(number: number, countries: codes, random: &random)
            let key = Array("order::\(Order.padded(number))".utf8)
            return DemoDocument(key: key, json: [UInt8](try encoder.encode(order)))
        }
    }
}

/// An order of a shop, generated from a seed: the same on every machine.
private struct Order: Encodable {
    struct Line: Encodable {
        let article: String
        let quantity: Int
        let cents: Int
    }

    let type = "order"
    let number: String
    let placed: String
    let customer: String
    let country: String
    let status: String
    let lines: [Line]
    let totalCents: Int

    init(number: Int, countries: [String], random: inout SeededRandom) {
        let articles = ["lamp", "divan", "cushion", "rug", "chair", "table", "shelf", "mirror"]
        let colours = ["red", "green", "blue", "oak", "walnut", "white", "black", "grey"]
        func pick(_ choices: [String]) -> String { choices.randomElement(using: &random) ?? "" }
        self.number = Order.padded(number)
        let day = Int.random(in: 1...28, using: &random)
        placed =
            "2026-\(Order.padded(Int.random(in: 1...12, using: &random), 2))-"
            + Order.padded(day, 2)
        customer = "customer::\(Order.padded(Int.random(in: 0..<5_000, using: &random)))"
        country = "country::\(pick(countries))"
        status = pick(["open", "paid", "packed", "shipped", "delivered", "returned"])
        let count = Int.random(in: 1...6, using: &random)
        lines = (0..<count).map { _ in
            Line(
                article: "\(pick(colours)) \(pick(articles))",
                quantity: Int.random(in: 1...4, using: &random),
                cents: Int.random(in: 990...199_900, using: &random)
            )
        }
        totalCents = lines.reduce(0) { $0 + $1.quantity * $1.cents }
    }

    static func padded(_ number: Int, _ width: Int = 6) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}
