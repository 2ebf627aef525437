internal import Bytes

/// The grants of a document: channels to users and roles, or roles to users, each with the sequence
/// of the grant.
package struct GrantTable: Hashable, Sendable {
    package struct Grant: Hashable, Sendable {
        /// A user's name, or `role:` and a role's.
        package var principal = ""
        /// A channel or a role.
        package var target = ""
        /// The sequence from which on the grant holds without interruption.
        package var sequence: UInt64 = 0

        init() {}

        package init(principal: String, target: String, sequence: UInt64) {
            self.principal = principal
            self.target = target
            self.sequence = sequence
        }
    }

    /// Sorted by principal, then target, bytewise; no pair occurs twice.
    package private(set) var grants: [Grant] = []

    package init() {}

    /// Replaces the grants: those that stay keep their sequence, new ones get `sequence`.
    ///
    /// - Returns: The principals whose grants changed, sorted.
    package mutating func update(to targets: [String: [String]], at sequence: UInt64) -> [String] {
        let old = Dictionary(grouping: grants, by: \.principal)
        var changed: [String] = []
        var updated: [Grant] = []
        for principal in Set(old.keys).union(targets.keys).sorted(by: GrantTable.precedes) {
            let before = old[principal] ?? []
            let names = Set(targets[principal] ?? []).sorted(by: GrantTable.precedes)
            if before.map(\.target) != names { changed.append(principal) }
            updated += names.map { name in
                before.first { $0.target == name }
                    ?? Grant(principal: principal, target: name, sequence: sequence)
            }
        }
        grants = updated
        return changed
    }

    private static func precedes(_ one: String, _ other: String) -> Bool {
        one.utf8.lexicographicallyPrecedes(other.utf8)
    }

    mutating func code(
        _ coder: inout some Coder,
        _ names: NameTable,
        near sequence: UInt64
    ) throws(CodingFailure) {
        try coder.list(&grants, "grants", blank: Grant()) { coder, grant throws(CodingFailure) in
            try names.code(&grant.principal, &coder)
            try names.code(&grant.target, &coder)
            try coder.difference(&grant.sequence, to: sequence, "sequence of a grant")
        }
    }
}
