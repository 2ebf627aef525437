/// A JSON text as a tree, for small files and requests, never for documents.
///
/// Members keep their order, and duplicates stay. A look-up finds the last one, as in most parsers.
package enum JSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    /// A number without fraction or exponent that fits an `Int`.
    case integer(Int)
    /// A number without fraction or exponent that fits only a `UInt64`.
    case unsigned(UInt64)
    case real(Double)
    case string(String)
    case array([JSONValue])
    case object([Member])

    package struct Member: Equatable, Sendable {
        package let name: String
        package let value: JSONValue

        package init(name: String, value: JSONValue) {
            self.name = name
            self.value = value
        }
    }

    /// The value of this object's last member of that name; nil if there is none, or this is not an
    /// object.
    package subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.last { $0.name == name }?.value
    }

    package var isNull: Bool { self == .null }

    package var bool: Bool? {
        guard case .bool(let claim) = self else { return nil }
        return claim
    }

    package var int: Int? {
        guard case .integer(let number) = self else { return nil }
        return number
    }

    /// Any number, rounded to a `Double`; nil if this is not a number.
    package var double: Double? {
        switch self {
        case .integer(let number): Double(number)
        case .unsigned(let number): Double(number)
        case .real(let number): number
        default: nil
        }
    }

    package var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    package var array: [JSONValue]? {
        guard case .array(let values) = self else { return nil }
        return values
    }

    package var members: [Member]? {
        guard case .object(let members) = self else { return nil }
        return members
    }
}

extension JSONWriter {
    package mutating func value(_ tree: JSONValue) {
        switch tree {
        case .null: null()
        case .bool(let claim): value(claim)
        case .integer(let number): value(number)
        case .unsigned(let number): value(number)
        case .real(let number): value(number)
        case .string(let text): value(text)
        case .array(let values): array { for value in values { $0.value(value) } }
        case .object(let members):
            object { for member in members { $0.member(member.name, member.value) } }
        }
    }

    package mutating func member(_ name: String, _ tree: JSONValue) {
        self.name(name)
        value(tree)
    }
}
