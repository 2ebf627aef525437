/// The keys of Sync Gateway's log that are switched on: `CRUD`, `HTTP`, and `HTTP+` with more of them.
package struct LogSwitches: Hashable, Sendable {
    package private(set) var keys: [String: Bool] = [:]
    /// 1 for everything, 2 for warnings, 3 for errors.
    package var level = 1

    package init() {}

    package init(_ names: [String]) {
        for name in names { set(name, true) }
    }

    /// Switches a key; `HTTP+` switches `HTTP` on too.
    package mutating func set(_ name: String, _ isOn: Bool) {
        keys[name] = isOn
        if isOn, name.hasSuffix("+") { keys[String(name.dropLast())] = true }
    }

    package func isOn(_ name: String) -> Bool { keys[name] ?? keys["*"] ?? false }
}
