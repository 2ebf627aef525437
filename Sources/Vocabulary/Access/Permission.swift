/// The right to perform one operation on one object, as REST routes and clients name it:
/// `cluster.bucket[b].data.docs!read`.
///
/// Objects form a tree below `cluster`. A bucket is a vertex with a name: `bucket[b]` is one bucket,
/// `bucket[.]` is any bucket that the user may use so, `bucket[*]` is every bucket.
package struct Permission: Hashable, Sendable {
    /// The owner of the object: the cluster or a bucket.
    package enum Owner: Hashable, Sendable {
        case cluster
        case bucket(String)
        /// `bucket[.]`: granted if the operation is granted on some bucket.
        case anyBucket
        /// `bucket[*]`: granted if the operation is granted on each bucket, also on future ones.
        case everyBucket
    }

    package let owner: Owner
    /// The vertices below the owner; empty for the owner itself.
    package let path: [String]
    package let operation: String

    package init(_ owner: Owner, _ path: [String], operation: String) {
        self.owner = owner
        self.path = path
        self.operation = operation
    }

    /// To change users and the administrator, and to add nodes: a new node reads everything.
    package static let securityWrite = Permission(
        .cluster,
        ["admin", "security"],
        operation: "write"
    )
    /// To rebalance, fail over, recover and remove nodes.
    package static let poolsWrite = Permission(.cluster, ["pools"], operation: "write")

    /// The permission that a text names; nil if the text is malformed.
    ///
    /// A scope or a collection (`collection[b:s:c]`) stands for its bucket, because roles are granted
    /// for whole buckets.
    package init?(_ text: String) {
        guard let vertices = PermissionText.vertices(text) else { return nil }
        operation = vertices.operation
        guard let first = vertices.path.first else {
            (owner, path) = (.cluster, [])
            return
        }
        guard let parameter = first.parameter,
            ["bucket", "scope", "collection"].contains(first.name)
        else {
            (owner, path) = (.cluster, vertices.path.map(\.text))
            return
        }
        let isWhole = first.name == "bucket"
        let bucket = isWhole ? parameter : String(parameter.prefix { $0 != ":" })
        owner =
            switch bucket {
            case ".": .anyBucket
            case "*": .everyBucket
            default: .bucket(bucket)
            }
        path = vertices.path.dropFirst().map(\.text)
    }

    package var text: String {
        let first: [String] =
            switch owner {
            case .cluster: []
            case .bucket(let name): ["bucket[\(name)]"]
            case .anyBucket: ["bucket[.]"]
            case .everyBucket: ["bucket[*]"]
            }
        return (["cluster"] + first + path).joined(separator: ".") + "!" + operation
    }
}

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
