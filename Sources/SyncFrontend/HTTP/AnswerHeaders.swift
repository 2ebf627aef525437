/// Header fields of an answer, in their order.
package struct AnswerHeaders: ExpressibleByDictionaryLiteral, Sendable {
    private(set) var fields: [(name: String, value: String)]

    package init() { fields = [] }

    package init(dictionaryLiteral elements: (String, String)...) {
        fields = elements.map { (name: $0.0, value: $0.1) }
    }

    /// Appends a field, also if there is one of that name: `Set-Cookie`.
    package mutating func add(_ name: String, _ value: String) { fields.append((name, value)) }

    /// Appends all fields of another list.
    mutating func append(_ other: AnswerHeaders) {
        if fields.isEmpty { fields = other.fields } else { fields += other.fields }
    }

    /// The first value of a field, its name compared without case; nil if there is none.
    ///
    /// Setting a value replaces all fields of that name; nil removes them.
    package subscript(name: String) -> String? {
        get { fields.first { FieldName.equal($0.name, name) }?.value }
        set {
            fields.removeAll { FieldName.equal($0.name, name) }
            if let newValue { fields.append((name, newValue)) }
        }
    }
}

/// Names of header fields.
enum FieldName {
    /// Whether the names are equal but for the case of ASCII letters.
    static func equal(_ one: String, _ other: String) -> Bool {
        let (one, other) = (one.utf8, other.utf8)
        return one.count == other.count && zip(one, other).allSatisfy { lower($0) == lower($1) }
    }

    private static func lower(_ byte: UInt8) -> UInt8 {
        byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte
    }
}
