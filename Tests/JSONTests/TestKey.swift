import Bytes
import CICU
import JSON

/// A key as a tree, with strings as UTF-16 so that lone surrogates stay; the model of the order.
indirect enum TestKey {
    case null
    case bool(Bool)
    case number(Double)
    case string([UInt16])
    case array([TestKey])
    case object([(name: [UInt16], value: TestKey)])

    /// The place of the type in the contract's order.
    private var rank: Int {
        switch self {
        case .null: 0
        case .bool(false): 1
        case .bool(true): 2
        case .number: 3
        case .string: 4
        case .array: 5
        case .object: 6
        }
    }

    /// -1, 0 or 1, as `collation.md` orders the keys.
    static func compare(_ one: TestKey, _ other: TestKey, _ collator: OpaquePointer) -> Int {
        switch (one, other) {
        case (.number(let one), .number(let other)): return one < other ? -1 : one > other ? 1 : 0
        case (.string(let one), .string(let other)): return compare(one, other, collator)
        case (.array(let ones), .array(let others)):
            for (one, other) in zip(ones, others) {
                let order = compare(one, other, collator)
                if order != 0 { return order }
            }
            return (ones.count - others.count).signum()
        case (.object(let ones), .object(let others)):
            for (one, other) in zip(ones, others) {
                let order = compare(one.name, other.name, collator)
                if order != 0 { return order }
                let next = compare(one.value, other.value, collator)
                if next != 0 { return next }
            }
            return (ones.count - others.count).signum()
        default: return (one.rank - other.rank).signum()
        }
    }

    /// ICU's own comparison, which uses no sort keys; then the order of the code points.
    private static func compare(_ one: [UInt16], _ other: [UInt16], _ collator: OpaquePointer)
        -> Int
    {
        let order = divan_collator_compare(
            collator,
            one,
            Int32(one.count),
            other,
            Int32(other.count)
        )
        if order != 0 { return Int(order) }
        let (ones, others) = (codePoints(one), codePoints(other))
        return ones == others ? 0 : ones.lexicographicallyPrecedes(others) ? -1 : 1
    }

    static func codePoints(_ units: [UInt16]) -> [UInt32] {
        var points: [UInt32] = []
        for unit in units {
            if UTF16.isTrailSurrogate(unit), let last = points.last, 0xd800...0xdbff ~= last {
                points[points.count - 1] = 0x1_0000 + (last - 0xd800) << 10 + UInt32(unit) - 0xdc00
            } else {
                points.append(UInt32(unit))
            }
        }
        return points
    }
}

// MARK: Text

extension TestKey {
    /// The text that `JSON.stringify` writes.
    var text: String {
        var text = ""
        var random: SeededRandom?
        write(to: &text, &random)
        return text
    }

    static func numberText(_ number: Double) -> String {
        let output = ByteWriter()
        JSONNumber.append(number, to: output)
        return output.view.text
    }

    /// A text with blanks, escapes and number forms chosen by `random`.
    func variedText(_ random: SeededRandom) -> String {
        var text = ""
        var random: SeededRandom? = random
        write(to: &text, &random)
        return text
    }

    private func write(to text: inout String, _ random: inout SeededRandom?) {
        TestKey.writeBlank(to: &text, &random)
        switch self {
        case .null: text += "null"
        case .bool(let claim): text += "\(claim)"
        case .number(let number):
            // Swift's form of a number has a point or an exponent where JavaScript's has none.
            text += TestKey.choose(&random) ? "\(number)" : TestKey.numberText(number)
        case .string(let units): TestKey.write(units, to: &text, &random)
        case .array(let values):
            text += "["
            for (index, value) in values.enumerated() {
                if index > 0 { text += "," }
                value.write(to: &text, &random)
            }
            text += "]"
        case .object(let members):
            text += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { text += "," }
                TestKey.writeBlank(to: &text, &random)
                TestKey.write(member.name, to: &text, &random)
                TestKey.writeBlank(to: &text, &random)
                text += ":"
                member.value.write(to: &text, &random)
            }
            text += "}"
        }
        TestKey.writeBlank(to: &text, &random)
    }

    private static func write(
        _ units: [UInt16],
        to text: inout String,
        _ random: inout SeededRandom?
    ) {
        text += "\""
        for point in codePoints(units) {
            let isEscaped = choose(&random)
            switch (point, Unicode.Scalar(point)) {
            case (0x22, _): text += "\\\""
            case (0x5c, _): text += "\\\\"
            case (0x08, _): text += "\\b"
            case (0x09, _): text += "\\t"
            case (0x0a, _): text += "\\n"
            case (0x0c, _): text += "\\f"
            case (0x0d, _): text += "\\r"
            case (0x20..., .some(let scalar)) where !isEscaped: text.unicodeScalars.append(scalar)
            default:
                for unit in point < 0x1_0000 ? [UInt16(point)] : pair(point) {
                    let digits = String(unit, radix: 16)
                    text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            }
        }
        text += "\""
    }

    private static func pair(_ point: UInt32) -> [UInt16] {
        [UInt16(0xd800 + (point - 0x1_0000) >> 10), UInt16(0xdc00 + (point - 0x1_0000) & 0x3ff)]
    }

    private static func writeBlank(to text: inout String, _ random: inout SeededRandom?) {
        if choose(&random) { text += [" ", "\n", "\t", "\r "][Int((random?.next() ?? 0) % 4)] }
    }

    /// True in one of four cases; false without a generator.
    private static func choose(_ random: inout SeededRandom?) -> Bool {
        random.map { _ in (random?.next() ?? 1) % 4 == 0 } ?? false
    }
}

// MARK: Random keys

extension TestKey {
    /// Characters that sort near each other, that ICU ignores, expands or reorders, and bounds.
    private static let characters: [[UInt16]] = [
        [0x61], [0x41], [0x62], [0x42], [0x7a], [0x20], [0x2d], [0x31], [0x32], [0x39], [0x00],
        [0x01], [0x02], [0x08], [0x1f], [0x22], [0x5c], [0x7f], [0xe9], [0x65, 0x301], [0x301],
        [0x327], [0xdf], [0x73, 0x73], [0x1c4], [0xad], [0x200d], [0xfdfa], [0x4e2d], [0xac00],
        [0xe01], [0xe40], [0xfffd], [0xfffe], [0xffff], [0xfdd0], [0xd834, 0xdd1e],
        [0xdbff, 0xdfff], [0xd83d, 0xde00], [0xd800], [0xdbff], [0xdc00], [0xdfff], [0x7ff],
        [0x800],
    ]

    private static let numbers: [Double] = [
        0, -0.0, 1, -1, 2, 10, 0.1, -0.1, 123, 123.0001, 1e15, 1e16, 9_007_199_254_740_991,
        9_007_199_254_740_992, 1e21, 1e-6, 1e-7, .leastNonzeroMagnitude, -.leastNonzeroMagnitude,
        .greatestFiniteMagnitude,
        -.greatestFiniteMagnitude, 2.2250738585072014e-308,
    ]

    static func random(_ random: inout SeededRandom, depth: Int = 0) -> TestKey {
        switch UInt64.random(in: 0..<(depth < 4 ? 12 : 9), using: &random) {
        case 0: return .null
        case 1: return .bool(Bool.random(using: &random))
        case 2: return .number(numbers.randomElement(using: &random) ?? 0)
        case 3: return .number(anyNumber(&random))
        case 4: return .number(Double(Int.random(in: -20...20, using: &random)))
        case 5...8: return .string(randomString(&random))
        case 9, 10:
            return .array(
                (0..<Int.random(in: 0...3, using: &random)).map { _ in
                    TestKey.random(&random, depth: depth + 1)
                }
            )
        default:
            return .object(
                (0..<Int.random(in: 0...3, using: &random)).map { _ in
                    (randomString(&random), TestKey.random(&random, depth: depth + 1))
                }
            )
        }
    }

    /// A key that differs from this one in little, so that comparisons reach the last byte.
    func varied(_ random: inout SeededRandom) -> TestKey {
        switch self {
        case .string(var units):
            let place = Int.random(in: 0...units.count, using: &random)
            if Bool.random(using: &random), place < units.count {
                units.remove(at: place)
            } else {
                units.insert(contentsOf: TestKey.randomCharacter(&random), at: place)
            }
            return .string(units)
        case .number(let number):
            let next = Bool.random(using: &random) ? number.nextUp : number.nextDown
            return .number(next.isFinite ? next : number)
        case .array(var values) where !values.isEmpty:
            let place = Int.random(in: 0..<values.count, using: &random)
            if UInt64.random(in: 0..<3, using: &random) == 0 {
                values.removeSubrange(place...)
            } else {
                values[place] = values[place].varied(&random)
            }
            return .array(values)
        case .object(var members) where !members.isEmpty:
            let place = Int.random(in: 0..<members.count, using: &random)
            switch UInt64.random(in: 0..<3, using: &random) {
            case 0: members.removeSubrange(place...)
            case 1: members[place].value = members[place].value.varied(&random)
            default: members[place].name += TestKey.randomCharacter(&random)
            }
            return .object(members)
        default: return TestKey.random(&random)
        }
    }

    static func anyNumber(_ random: inout SeededRandom) -> Double {
        while true {
            let number = Double(bitPattern: random.next())
            if number.isFinite { return number }
        }
    }

    private static func randomString(_ random: inout SeededRandom) -> [UInt16] {
        (0..<Int.random(in: 0...6, using: &random)).flatMap { _ in randomCharacter(&random) }
    }

    private static func randomCharacter(_ random: inout SeededRandom) -> [UInt16] {
        switch UInt64.random(in: 0..<8, using: &random) {
        case 0: [UInt16.random(in: 0...0xffff, using: &random)]
        case 1: [UInt16.random(in: 0...0x24f, using: &random)]
        case 2...4: [UInt16.random(in: 0x61...0x63, using: &random)]
        default: characters.randomElement(using: &random) ?? []
        }
    }
}
