/// When principals changed last, so that what was computed of one is used until it changes.
///
/// Memory: one entry for each of the principals that changed last, `changesMax` at most.
package struct AccessVersions: Sendable {
    /// Beyond it, all entries are forgotten, and every principal counts as changed.
    package static let changesMax = 10_000

    /// Grows with each change; taken before a principal is read.
    package private(set) var newest: UInt64 = 0
    /// Everything that was read before it counts as changed.
    private var floor: UInt64 = 0
    private var changes: [PrincipalKey: UInt64] = [:]

    package init() {}

    /// A principal changed, or what documents grant to it.
    package mutating func note(_ principal: PrincipalKey) {
        newest += 1
        if changes.count >= Self.changesMax {
            changes = [:]
            floor = newest
        }
        changes[principal] = newest
    }

    /// Whether one of the principals changed after `version`.
    package func hasChanged(_ principals: [PrincipalKey], since version: UInt64) -> Bool {
        version < floor || principals.contains { changes[$0, default: 0] > version }
    }
}
