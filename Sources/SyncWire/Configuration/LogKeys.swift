/// The subjects that a gateway logs, as Sync Gateway's files, its flag `-log` and its route `_logging` name them.
///
/// `CRUD+` means `CRUD` too, with more detail; `*` means all that are not switched off.
package struct LogKeys: Hashable, Sendable {
    package private(set) var switches: [String: Bool] = [:]
    /// 1 for everything, 2 for warnings, 3 for errors.
    package var level = 1

    package init(_ keys: [String] = ["HTTP"]) { insert(keys) }

    /// Switches all keys of a list on.
    package mutating func insert(_ keys: [String]) {
        for key in keys { set(key, true) }
    }

    package mutating func set(_ key: String, _ isOn: Bool) {
        switches[key] = isOn
        if isOn { switches[String(key.prefix { $0 != "+" })] = true }
    }

    package func contains(_ key: String) -> Bool { switches[key] ?? switches["*"] ?? false }
}
