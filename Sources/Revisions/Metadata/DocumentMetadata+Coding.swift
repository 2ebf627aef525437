package import Bytes
internal import SyncWire

/// The encoding of a document's metadata, which stores keep in memory and on disk.
///
/// Every name stands once, and sequences are differences to the document's.
extension DocumentMetadata: CodedFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        var names = NameTable(allNames)
        try names.code(&coder)
        try coder.field(&tree, "revisions")
        try coder.field(&sequence, "sequence")
        let last = sequence
        try coder.list(&recentSequences, "recent sequences", blank: 0) {
            coder,
            sequence throws(CodingFailure) in
            try coder.difference(&sequence, to: last, "recent sequence")
        }
        try coder.list(&channelSets, "sets of channels", blank: []) {
            coder,
            set throws(CodingFailure) in
            try coder.list(&set, "set of channels", blank: "") {
                coder,
                name throws(CodingFailure) in
                try names.code(&name, &coder)
            }
        }
        try coder.require(channelSets.count <= RevisionTree.countMax, "sets of channels")
        try coder.list(&channels, "channels", blank: ChannelRecord()) {
            coder,
            record throws(CodingFailure) in
            try record.code(&coder, names, near: last)
        }
        try access.code(&coder, names, near: last)
        try roleAccess.code(&coder, names, near: last)
        try coder.fixed(&timeSaved, "time of saving")
        try coder.field(&attachments, "attachments")
        try coder.list(&leafBodies, "bodies of leaves", blank: LeafBody.blank) {
            coder,
            leaf throws(CodingFailure) in
            try leaf.code(&coder)
        }
    }

    private var allNames: [String] {
        channelSets.flatMap { $0 } + channels.map(\.name)
            + (access.grants + roleAccess.grants).flatMap { [$0.principal, $0.target] }
    }
}

extension LeafBody {
    fileprivate static let blank = LeafBody(
        revision: RevisionID(generation: 1, digest: [0]),
        attachments: [],
        json: nil
    )

    fileprivate mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        var (id, attachments, json) = (Optional(revision), attachments, json)
        try coder.revision(&id, "revision of a leaf")
        try coder.field(&attachments, "attachments of a leaf")
        try coder.field(&json, "body of a leaf")
        self = LeafBody(revision: id ?? revision, attachments: attachments, json: json)
    }
}

/// The names in a document's metadata, each stored once; fields have their numbers.
struct NameTable {
    private var names: [String]
    private var numbers: [String: Int]

    /// - Parameter names: In any order; may repeat. None for a reader.
    init(_ names: some Sequence<String>) {
        self.names = []
        numbers = [:]
        for name in names where numbers[name] == nil {
            numbers[name] = self.names.count
            self.names.append(name)
        }
    }

    /// Codes the table itself, before all fields that use it.
    ///
    /// - Throws: `CodingFailure` if the bytes are no list of texts.
    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&names, "names")
    }

    /// Codes one name as its number.
    ///
    /// - Throws: `CodingFailure` if the table has no such number.
    func code(_ name: inout String, _ coder: inout some Coder) throws(CodingFailure) {
        var number = numbers[name] ?? 0
        try coder.field(&number, "number of a name")
        try coder.require(number < names.count, "number of a name")
        name = names[number]
    }
}
