import Bytes
import JSON

/// Random texts and paths: the same values in different spellings.
struct RandomDocuments {
    private var random: SeededRandom

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
    }

    mutating func below(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }

    mutating func chance(oneIn odds: Int) -> Bool { below(odds) == 0 }

    mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[below(elements.count)]
    }

    static let keys = [
        "a", "b", "c", "name", "é", "日本", "😀", "a.b", "x[0]", "q\"uote", "back\\slash", "tick`s",
        "new\nline", " ", "a`.b", "a long key that does not fit into a vector of 32 bytes", "$x",
        "`",
    ]

    /// Numbers whose texts differ if they differ.
    static let numbers =
        [
            "0", "1", "-1", "42", "9223372036854775807", "-9223372036854775808",
            "9223372036854775806", "9223372036854775808", "18446744073709551615", "1.5",
            "-2.25e-3", "1.7976931348623157e308", "5e-324", "0.1",
        ] + PathModel.wideIntegers

    static let texts = [
        "", "text", "\"", "\\", "\\\"", "]", "}", "é", "😀", "{\"a\":1}", "line\n\ttab", "/",
        String(repeating: "long ", count: 20), String(repeating: "\\", count: 33),
    ]

    // MARK: Texts

    /// A value in a random spelling, nested at most `depth` deep.
    mutating func value(depth: Int) -> String {
        switch below(depth > 0 ? 7 : 4) {
        case 0: return pick(Self.numbers)
        case 1: return quoted(pick(Self.texts))
        case 2: return pick(["true", "false", "null"])
        case 3: return String(below(10))
        case 4: return array(depth: depth)
        default: return object(depth: depth)
        }
    }

    /// A document: mostly an object.
    mutating func document() -> String {
        let text = chance(oneIn: 4) ? array(depth: 4) : object(depth: 4)
        return blank() + text + blank()
    }

    private mutating func array(depth: Int) -> String {
        let elements = (0..<below(5)).map { _ in value(depth: depth - 1) }
        return "[" + separated(elements) + "]"
    }

    private mutating func object(depth: Int) -> String {
        var names = Set((0..<below(6)).map { _ in pick(Self.keys) }).sorted()
        for place in names.indices.reversed() { names.swapAt(place, below(place + 1)) }
        let members = names.map { name in
            quoted(name) + blank() + ":" + blank() + value(depth: depth - 1)
        }
        return "{" + separated(members) + "}"
    }

    mutating func separated(_ elements: [String]) -> String {
        var text = blank()
        for (place, element) in elements.enumerated() {
            if place > 0 { text += "," + blank() }
            text += element + blank()
        }
        return text
    }

    private mutating func blank() -> String {
        chance(oneIn: 3) ? pick([" ", "\n", "\t", "\r\n  ", "          "]) : ""
    }

    /// A JSON string, with escapes where they are needed and where they are not.
    mutating func quoted(_ text: String) -> String {
        var quoted = "\""
        for character in text.unicodeScalars {
            let needsEscape = character.value < 0x20 || character == "\"" || character == "\\"
            if character == "\"" || character == "\\", !chance(oneIn: 3) {
                quoted += "\\\(character)"
            } else if needsEscape || chance(oneIn: 8) {
                for unit in String(character).utf16 {
                    let digits = String(unit, radix: 16, uppercase: chance(oneIn: 2))
                    quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            } else {
                quoted.unicodeScalars.append(character)
            }
        }
        return quoted + "\""
    }

    // MARK: Paths

    /// Steps that mostly lead to a value of `root`, and sometimes past or beside it.
    mutating func steps(in root: JSONValue) -> [PathModel.Step] {
        var steps: [PathModel.Step] = []
        var value = root
        while !chance(oneIn: 5) {
            if let elements = value.array, !elements.isEmpty {
                let index = below(elements.count)
                let isLast = index == elements.count - 1 && chance(oneIn: 2)
                steps.append(isLast ? .last : .index(index))
                value = elements[index]
            } else if let members = value.members, !members.isEmpty {
                let member = pick(members)
                steps.append(.key(member.name))
                value = member.value
            } else {
                break
            }
        }
        while chance(oneIn: 3) {
            switch below(6) {
            case 0: steps.append(.last)
            case 1: steps.append(.index(below(4)))
            case 2: steps.append(.index(value.array?.count ?? 0))
            default: steps.append(.key(pick(Self.keys)))
            }
        }
        return steps
    }

    /// The text of a path, with backticks where they are needed and where they are not.
    mutating func path(_ steps: [PathModel.Step]) -> String {
        var text = ""
        for step in steps {
            switch step {
            case .index(let index):
                text += (text.isEmpty || chance(oneIn: 2) ? "" : ".") + "[\(index)]"
            case .last: text += "[-1]"
            case .key(let name):
                if !text.isEmpty { text += "." }
                var key = ""
                for character in name {
                    switch character {
                    case "`": key += "``"
                    case "\"", "\\": key += "\\\(character)"
                    case "\n": key += "\\n"
                    default: key.append(character)
                    }
                }
                let needsBackticks = name.contains { ".[]`".contains($0) }
                text += needsBackticks || chance(oneIn: 4) ? "`\(key)`" : key
            }
        }
        return text
    }
}
