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
