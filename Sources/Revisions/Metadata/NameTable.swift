internal import Bytes

/// The names in a document's metadata, each stored once; fields have their numbers.
struct NameTable {
    private var names: [String]
    private var numbers: [String: Int]

    /// - Parameter names: In any order; may repeat. None for a reader.
    init(_ names: some Sequence<String>) {
        self.names = []
        numbers = [:]
        for name in names where numbers[name] == nil {
            numbers[name] = self.names.count
            self.names.append(name)
        }
    }

    /// Codes the table itself, before all fields that use it.
    ///
    /// - Throws: `CodingFailure` if the bytes are no list of texts.
    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&names, "names")
    }

    /// Codes one name as its number.
    ///
    /// - Throws: `CodingFailure` if the table has no such number.
    func code(_ name: inout String, _ coder: inout some Coder) throws(CodingFailure) {
        var number = numbers[name] ?? 0
        try coder.field(&number, "number of a name")
        try coder.require(number < names.count, "number of a name")
        name = names[number]
    }
}
