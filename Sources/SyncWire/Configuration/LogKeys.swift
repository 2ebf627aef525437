/// The subjects that a gateway logs, as Sync Gateway's files and its flag `-log` name them.
///
/// `CRUD+` means `CRUD` too, with more detail; `*` means all.
package struct LogKeys: Equatable, Sendable {
    private var names: Set<String> = ["HTTP"]

    /// Adds the keys of a list.
    package mutating func insert(_ keys: [String]) {
        for key in keys {
            names.insert(key)
            names.insert(String(key.prefix { $0 != "+" }))
        }
    }

    package func contains(_ key: String) -> Bool { names.contains(key) || names.contains("*") }
}
