/// What a form was filled in with, in the order sent; of a name sent twice the last one counts.
package struct FormParameters: Sendable {
    package let pairs: [(name: String, value: String)]

    package init(_ pairs: [(name: String, value: String)]) {
        self.pairs = pairs
    }

    package subscript(name: String) -> String? {
        pairs.last { $0.name == name }?.value
    }

    /// Every value sent under the name.
    package func all(_ name: String) -> [String] {
        pairs.filter { $0.name == name }.map(\.value)
    }

    /// A whole number without sign or decoration; nil for anything else.
    package static func number(_ text: String) -> UInt64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return UInt64(text)
    }
}

/// What is wrong with one field of a form, in the words its sender sees.
package struct FieldError: Hashable, Sendable {
    /// `_` for the form as a whole.
    package let field: String
    package let text: String

    package init(_ field: String, _ text: String) {
        self.field = field
        self.text = text
    }
}
