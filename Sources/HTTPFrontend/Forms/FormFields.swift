internal import Orchestration

/// The fields of a query or a form as bytes, in the order sent: a value need not be UTF-8.
struct FormFields: Sendable {
    let pairs: [(name: [UInt8], value: [UInt8])]

    /// The value of a field; the last one if the name occurs several times, nil if it is missing.
    subscript(name: String) -> [UInt8]? {
        pairs.last { $0.name.elementsEqual(name.utf8) }?.value
    }

    /// The fields whose name and value are UTF-8; `illFormedField` names the remaining ones.
    var text: FormParameters {
        FormParameters(
            pairs.compactMap { pair in
                guard let name = pair.name.text, let value = pair.value.text else { return nil }
                return (name: name, value: value)
            }
        )
    }

    /// The first field that is not UTF-8.
    ///
    /// - Parameter raw: The names of fields whose values may be any bytes.
    /// - Returns: The field's error; nil if all fields are UTF-8.
    func illFormedField(besides raw: Set<String> = []) -> FieldError? {
        for pair in pairs {
            guard let name = pair.name.text else {
                let text = "The field name \(URLCoding.encode(pair.name)) is not valid UTF-8"
                return FieldError("_", text)
            }
            if !raw.contains(name), !pair.value.isText {
                return FieldError(name, "The value of \"\(name)\" is not valid UTF-8")
            }
        }
        return nil
    }
}
