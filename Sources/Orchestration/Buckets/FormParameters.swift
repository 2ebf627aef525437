/// The parameters of a form, in the order sent; if a name occurs twice, its last value applies.
package struct FormParameters: Sendable {
    package let pairs: [(name: String, value: String)]

    package init(_ pairs: [(name: String, value: String)]) {
        self.pairs = pairs
    }

    package subscript(name: String) -> String? {
        pairs.last { $0.name == name }?.value
    }

    /// All values of a name, in the order sent.
    package func all(_ name: String) -> [String] {
        pairs.filter { $0.name == name }.map(\.value)
    }

    /// Parses decimal digits; nil for anything else, and if the number exceeds 64 bits.
    package static func number(_ text: String) -> UInt64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return UInt64(text)
    }
}

/// An error of one field of a form, with a text for users.
package struct FieldError: Error, Hashable, Sendable {
    /// `_` for the form as a whole.
    package let field: String
    package let text: String

    package init(_ field: String, _ text: String) {
        self.field = field
        self.text = text
    }
}
