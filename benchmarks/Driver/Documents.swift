internal import Bytes
internal import Foundation

/// The keys and values of a workload; the same seed gives the same documents on every run.
struct Documents: Sendable {
    /// The number of distinct values: enough that neighbours on disk are not copies of each other, few
    /// enough to generate at once.
    private static let poolCount = 4_096

    let keyCount: Int
    let keyBytes: Int
    let valueBytes: Int
    private let pool: [[UInt8]]

    init(_ workload: Workload, seed: UInt64 = 1) {
        keyCount = workload.keys
        keyBytes = workload.keyBytes
        valueBytes = workload.valueBytes
        var random = SeededRandom(seed: seed)
        let count = max(16, min(Documents.poolCount, (64 << 20) / max(1, valueBytes)))
        pool = (0..<count).map { _ in
            workload.value == .json
                ? Documents.json(workload.valueBytes, &random)
                : Documents.binary(workload.valueBytes, &random)
        }
    }

    /// `key:` and the number, with leading zeros.
    func appendKey(_ number: Int, to writer: ByteWriter) {
        let place = writer.claim(keyBytes)
        var rest = number
        for offset in stride(from: keyBytes - 1, through: 4, by: -1) {
            place.storeBytes(of: UInt8(48 + rest % 10), toByteOffset: offset, as: UInt8.self)
            rest /= 10
        }
        place.storeBytes(of: UInt32(bigEndian: 0x6b65_793a), as: UInt32.self)
    }

    /// One of the values; `choice` may be any number.
    func appendValue(_ choice: Int, to writer: ByteWriter) {
        writer.append(pool[choice % pool.count])
    }

    // MARK: Values

    private static func binary(_ count: Int, _ random: inout SeededRandom) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    /// An object of exactly `count` bytes: typical fields, then text as padding.
    private static func json(_ count: Int, _ random: inout SeededRandom) -> [UInt8] {
        var text = "{"
        if count >= 300 {
            let first = pick(names, &random)
            let last = pick(words, &random).capitalized
            text += "\"name\":\"\(first) \(last)\","
            text += "\"email\":\"\(first.lowercased()).\(last.lowercased())@example.com\","
            text += "\"age\":\(Int.random(in: 18...95, using: &random)),"
            text += "\"balance\":\(Int.random(in: 0...999_999, using: &random)).50,"
            text += "\"active\":\(Bool.random(using: &random)),"
            text += "\"tags\":[\"\(pick(words, &random))\",\"\(pick(words, &random))\"],"
        }
        text += "\"text\":\""
        var bytes = Array(text.utf8)
        let end = Array("\"}".utf8)
        while bytes.count < count - end.count {
            bytes += pick(words, &random).utf8
            if Int.random(in: 0..<4, using: &random) == 0 {
                bytes += String(Int.random(in: 0...99_999, using: &random)).utf8
            }
            bytes.append(UInt8(ascii: " "))
        }
        bytes.removeLast(bytes.count - (count - end.count))
        return bytes + end
    }

    private static func pick(_ list: [String], _ random: inout SeededRandom) -> String {
        list[Int.random(in: 0..<list.count, using: &random)]
    }

    private static let names = [
        "Ada", "Alan", "Barbara", "Claude", "Donald", "Edsger", "Frances", "Grace", "Hedy", "John",
        "Katherine", "Konrad", "Lynn", "Margaret", "Niklaus", "Radia", "Tony", "Vera", "Yukihiro",
    ]

    private static let words = [
        "amber", "anchor", "autumn", "basket", "beacon", "bridge", "candle", "canyon", "cedar",
        "cloud", "copper", "coral", "crystal", "delta", "desert", "ember", "falcon", "feather",
        "forest", "garden", "glacier", "granite", "harbor", "hazel", "island", "ivory", "jasmine",
        "lantern", "lemon", "maple", "marble", "meadow", "mirror", "mountain", "nectar", "ocean",
        "olive", "orchard", "pebble", "pepper", "pine", "prairie", "quartz", "rain", "raven",
        "river", "saffron", "sage", "shadow", "silver", "spruce", "stone", "summer", "sunset",
        "thunder", "timber", "valley", "velvet", "violet", "walnut", "willow", "winter", "zephyr",
    ]
}
