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
    mutating func revision(
        _ id: inout RevisionID?,
        _ name: StaticString
    ) throws(CodingFailure) {
        var tree = RevisionTree()
        if let id { tree.append(id, parent: nil, isDeleted: false) }
        try field(&tree, name)
        try require(tree.count == 1, name)
        id = tree.newest
    }
}
