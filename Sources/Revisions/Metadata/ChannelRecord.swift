internal import Bytes
package import SyncWire

/// A document in one channel: since when, or until when, and the times before.
///
/// With the past, the index of channels is a function of the documents alone and can be rebuilt.
package struct ChannelRecord: Hashable, Sendable {
    /// The end of the document's stay in the channel.
    package struct Removal: Hashable, Sendable {
        package let sequence: UInt64
        /// The winner since then.
        package let revision: RevisionID
        /// Whether that revision deletes the document.
        package let isDeletion: Bool
    }

    /// A time in the channel that is over, as sequences.
    package struct Stay: Hashable, Sendable {
        package var entered: UInt64 = 0
        package var left: UInt64 = 0
    }

    /// Sync Gateway 3 keeps as many for each channel; the oldest two become one.
    package static let pastMax = 5

    package var name = ""
    /// The sequence at which the document entered last.
    package var entered: UInt64 = 0
    /// Nil while the document is in the channel.
    package var removal: Removal?
    /// Earlier stays, the oldest first.
    package var past: [Stay] = []

    init() {}

    package init(name: String, entered: UInt64) {
        self.name = name
        self.entered = entered
    }

    package var isCurrent: Bool { removal == nil }

    /// Enters the channel again.
    mutating func enter(at sequence: UInt64) {
        guard let removal else { return }
        past.append(Stay(entered: entered, left: removal.sequence))
        if past.count > ChannelRecord.pastMax {
            past[1].entered = past[0].entered
            past.removeFirst()
        }
        entered = sequence
        self.removal = nil
    }

    mutating func code(
        _ coder: inout some Coder,
        _ names: NameTable,
        near sequence: UInt64
    ) throws(CodingFailure) {
        try names.code(&name, &coder)
        try coder.difference(&entered, to: sequence, "sequence of entering")
        var isRemoved = removal != nil
        try coder.field(&isRemoved, "whether removed")
        if isRemoved {
            var left = removal?.sequence ?? 0
            var revision = removal?.revision
            var isDeletion = removal?.isDeletion ?? false
            try coder.difference(&left, to: sequence, "sequence of leaving")
            try coder.revision(&revision, "revision of leaving")
            try coder.field(&isDeletion, "whether deleted")
            removal = revision.map {
                Removal(sequence: left, revision: $0, isDeletion: isDeletion)
            }
        }
        try coder.list(&past, "past", blank: Stay()) { coder, stay throws(CodingFailure) in
            try coder.difference(&stay.entered, to: sequence, "sequence of entering")
            try coder.difference(&stay.left, to: stay.entered, "sequence of leaving")
        }
    }
}

extension Coder {
    /// A revision as a tree of one.
    ///
    /// - Throws: `CodingFailure` if the bytes are not one revision.
    mutating func revision(_ id: inout RevisionID?, _ name: StaticString) throws(CodingFailure) {
        var tree = RevisionTree()
        if let id { tree.append(id, parent: nil, isDeleted: false) }
        try field(&tree, name)
        try require(tree.count == 1, name)
        id = tree.newest
    }
}

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
