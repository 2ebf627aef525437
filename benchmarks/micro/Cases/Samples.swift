internal import Bytes

/// Keys and JSON documents for the cases; the same seed gives the same.
struct Samples {
    private var random: SeededRandom
    /// Words as people make them up: some thousand, so that a block of documents is no repetition.
    private let words: [[UInt8]]

    init(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let syllables = [
            "ba", "con", "de", "er", "fi", "gra", "ho", "in", "ka", "lu", "mo", "ne", "or", "pe",
            "qui", "ra", "sto", "ti", "un", "ve", "wi", "xa", "ya", "zu",
        ]
        var words: [[UInt8]] = []
        for _ in 0..<4_000 {
            let count = Int(random.next() % 3) + 2
            let parts = (0..<count).map { _ in syllables[Int(random.next() % 24)] }
            words.append(Array(parts.joined().utf8))
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

    /// An object of `count` bytes: names and numbers as applications have them, then text.
    mutating func json(_ count: Int) -> [UInt8] {
        var text = "{\"id\":\"\(hex(16))\",\"type\":\"order\",\"customer\":\"\(hex(12))\","
        text += "\"created\":\"2026-\(number(10, 12))-\(number(10, 28))T\(number(10, 23)):"
        text +=
            "\(number(10, 59)):\(number(10, 59))Z\",\"total\":\(number(100, 99_999)).\(number(10, 99)),"
        text += "\"paid\":\(random.next() % 2 == 0),\"items\":["
        text += (0..<3).map { _ in
            "{\"sku\":\"\(hex(8))\",\"count\":\(number(1, 9)),\"price\":\(number(1, 999)).99}"
        }.joined(separator: ",")
        text += "],\"note\":\""
        var bytes = Array(text.utf8)
        let end = Array("\"}".utf8)
        while bytes.count < count - end.count {
            bytes += words[Int(random.next() % UInt64(words.count))]
            bytes.append(UInt8(ascii: " "))
        }
        bytes.removeLast(bytes.count - (count - end.count))
        return bytes + end
    }

    private mutating func hex(_ digits: Int) -> String {
        let text = String(random.next(), radix: 16)
        return String((String(repeating: "0", count: 16 - text.count) + text).suffix(digits))
    }

    private mutating func number(_ least: UInt64, _ most: UInt64) -> UInt64 {
        least + random.next() % (most - least + 1)
    }
}
