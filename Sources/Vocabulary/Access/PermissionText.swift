/// The grammar of a permission's text: `cluster`, then `.name` or `.name[parameter]` any number of
/// times, then `!operation`.
enum PermissionText {
    struct Vertex {
        let name: String
        /// Nil without brackets.
        ///
        /// May contain dots, because names of buckets do.
        let parameter: String?

        var text: String { parameter.map { "\(name)[\($0)]" } ?? name }
    }

    /// The vertices below `cluster` and the operation; nil if the text is malformed.
    static func vertices(_ text: String) -> (path: [Vertex], operation: String)? {
        var rest = text[...]
        guard word(&rest, isNameByte) == "cluster" else { return nil }
        var path: [Vertex] = []
        while rest.first == "." {
            rest.removeFirst()
            let name = word(&rest, isNameByte)
            guard !name.isEmpty else { return nil }
            guard rest.first == "[" else {
                path.append(Vertex(name: name, parameter: nil))
                continue
            }
            rest.removeFirst()
            let parameter = word(&rest) { $0 != UInt8(ascii: "[") && $0 != UInt8(ascii: "]") }
            guard rest.first == "]" else { return nil }
            rest.removeFirst()
            path.append(Vertex(name: name, parameter: parameter))
        }
        guard rest.first == "!" else { return nil }
        rest.removeFirst()
        let operation = word(&rest) { isSmallLetter($0) || $0 == UInt8(ascii: "_") }
        return rest.isEmpty && !operation.isEmpty ? (path, operation) : nil
    }

    /// Removes the longest prefix of accepted bytes.
    private static func word(_ rest: inout Substring, _ isAccepted: (UInt8) -> Bool) -> String {
        let end = rest.utf8.firstIndex { !isAccepted($0) } ?? rest.endIndex
        defer { rest = rest[end...] }
        return String(rest[..<end])
    }

    private static func isSmallLetter(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z")
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        isSmallLetter(byte) || byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z")
            || byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") || byte == UInt8(ascii: "_")
            || byte == UInt8(ascii: "-")
    }
}
