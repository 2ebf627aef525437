internal import Bytes

/// Keys and JSON documents for the cases; the same seed gives the same.
struct Samples {
    private var random: SeededRandom
    /// A thousand pronounceable words, enough that a block of documents is not repetitive.
    private let words: [String]

    init(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let syllables = [
            "ba", "con", "de", "er", "fi", "gra", "ho", "in", "ka", "lu", "mo", "ne", "or", "pe",
            "qui", "ra", "sto", "ti", "un", "ve", "wi", "xa", "ya", "zu",
        ]
        var words: [String] = []
        for _ in 0..<1_000 {
            let count = Int(random.next() % 3) + 2
            let parts = (0..<count).map { _ in syllables[Int(random.next() % 24)] }
            words.append(parts.joined())
        }
        self.random = random
        self.words = words
        self.random = random
    }

    static func key(_ number: Int) -> [UInt8] {
        let digits = String(number)
        return Array(("key:" + String(repeating: "0", count: 11 - digits.count) + digits).utf8)
    }

    mutating func binary(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next() >> 20) }
    }

    /// An order with its items, exactly `count` bytes: LZ4 compresses a single one to 0.72 and
    /// a block of 32 to 0.43, the ratios of the documents that the storage design was measured with.
    mutating func json(_ count: Int) -> [UInt8] {
        var text = "{\"id\":\"\(hex(12))\",\"type\":\"order\",\"status\":\"\(status())\","
        text += "\"customer\":{\"name\":\"\(word()) \(word())\",\"email\":\"\(word()).\(word())"
        text += "@example.com\",\"city\":\"\(word())\"},\"created\":\"2026-\(number(10, 12))-"
        text += "\(number(10, 28))T\(number(10, 23)):\(number(10, 59)):\(number(10, 59))Z\","
        text += "\"total\":\(number(100, 99_999)).\(number(10, 99)),\"paid\":\(number(0, 1) == 0),"
        text += "\"items\":["
        for item in 0..<9 {
            text += item == 0 ? "" : ","
            text += "{\"sku\":\"\(word())-\(number(100, 999))\",\"count\":\(number(1, 9)),"
            text += "\"price\":\(number(1, 999)).99,\"title\":\"\(word()) \(word())\"}"
        }
        var bytes = Array((text + "],\"note\":\"").utf8)
        let end = Array("\"}".utf8)
        while bytes.count < count - end.count { bytes += Array((word() + " ").utf8) }
        precondition(count >= 1_000, "an order does not fit \(count) bytes")
        bytes.removeLast(bytes.count - (count - end.count))
        return bytes + end
    }

    private mutating func word() -> String { words[Int(random.next() % UInt64(words.count))] }

    private mutating func status() -> String {
        ["open", "paid", "sent", "returned"][Int(random.next() % 4)]
    }

    private mutating func hex(_ digits: Int) -> String {
        let text = String(random.next(), radix: 16)
        return String((String(repeating: "0", count: 16 - text.count) + text).suffix(digits))
    }

    private mutating func number(_ least: UInt64, _ most: UInt64) -> UInt64 {
        least + random.next() % (most - least + 1)
    }
}
