package import Bytes
package import SyncWire

/// The gateway's record of a document: its revisions, its channels and its grants (S 0,
/// `_sync`).
///
/// A store keeps it encoded (`DocumentMetadata+Coding.swift`), some 60 bytes for a document with
/// one revision in one channel, and decodes it for one operation.
///
/// **Invariants**
/// - Everything but the tree describes the winner: channels, grants and `attachments`.
/// - A live leaf has its body here, in `leafBodies`, or it is the winner, whose body is the
///   document's.
/// - Lists with names are sorted bytewise, so that equal metadata has equal bytes.
package struct DocumentMetadata: Hashable, Sendable {
    /// Sync Gateway keeps twenty.
    static let recentSequencesMax = 20

    package var tree = RevisionTree()
    /// The sequence of the last write; 0 if there was none.
    package internal(set) var sequence: UInt64 = 0
    /// The sequences of the last writes, ascending, `sequence` included.
    package internal(set) var recentSequences: [UInt64] = []
    /// All channels that the document is or was in, by name.
    package internal(set) var channels: [ChannelRecord] = []
    /// Channels that the document grants.
    package internal(set) var access = GrantTable()
    /// Roles that the document grants.
    package internal(set) var roleAccess = GrantTable()
    /// Nanoseconds since 1970 at the last write.
    package internal(set) var timeSaved: UInt64 = 0
    /// The attachments of the winner, by name.
    package internal(set) var attachments: [StoredAttachment] = []
    package internal(set) var leafBodies: [LeafBody] = []
    /// The sets of channels that revisions have, sorted; a revision has the number of its set, from
    /// 1 on.
    var channelSets: [[String]] = []

    package init() {}

    /// The channels that the sync function gave a revision, by name; empty for an unknown revision.
    package func channels(of id: RevisionID) -> [String] {
        tree[id].map { channels(ofSet: $0.channelSet) } ?? []
    }

    func channels(ofSet number: UInt16) -> [String] {
        let index = Int(number) - 1
        return channelSets.indices.contains(index) ? channelSets[index] : []
    }

    /// The channels that the document left with a revision, by name.
    ///
    /// A user with access to one of them, but to no channel of the revision, gets it as `_removed`.
    package func channelsLeft(with id: RevisionID) -> [String] {
        channels.filter { $0.removal?.revision == id }.map(\.name)
    }

    /// The digests of all attachments of leaves: the blobs that the document owns.
    package var blobs: Set<String> {
        Set((attachments + leafBodies.flatMap(\.attachments)).map(\.digest))
    }

    // MARK: Bodies

    /// Where the body of a revision is.
    package enum BodyLocation: Hashable, Sendable {
        /// It is the winner: the body of the document, with `DocumentMetadata.attachments`.
        case document
        case inline(RevisionBody)
        /// A document of its own.
        case separate
        /// Only a copy in the archive may be left, which is kept for minutes.
        case archive
        /// The document has no such revision.
        case unknown
    }

    package func bodyLocation(of id: RevisionID) -> BodyLocation {
        guard let node = tree[id] else { return .unknown }
        if tree.winner == node { return .document }
        if let leaf = leafBodies.first(where: { $0.revision == id }) {
            guard let json = leaf.json else { return .separate }
            return .inline(RevisionBody(json: json, attachments: leaf.attachments))
        }
        // A tombstone without content has no body to store.
        return node.isDeleted && tree.isLeaf(id) ? .inline(RevisionBody()) : .archive
    }

    /// The attachments that a child of `parent` may take over by stubs (S 5).
    ///
    /// If the parent is no leaf, its body is gone: then what a leaf that descends from it has,
    /// unless it is newer than their common ancestor.
    package func attachments(inheritedFrom parent: RevisionID?) -> [StoredAttachment] {
        guard let parent else { return [] }
        if tree.isLeaf(parent) { return attachments(ofLeaf: parent) }
        let ancestry = tree.ancestry(of: parent)
        for leaf in tree.leaves {
            if let common = tree.nearest(of: ancestry, to: leaf.id) {
                return attachments(ofLeaf: leaf.id).filter { $0.revpos <= common.generation }
            }
        }
        return []
    }

    private func attachments(ofLeaf id: RevisionID) -> [StoredAttachment] {
        tree.winner?.id == id
            ? attachments : leafBodies.first { $0.revision == id }?.attachments ?? []
    }

    /// The lowest `revpos` of attachments that a read returns with their content.
    ///
    /// Content that is not newer than an ancestor in `known` (`atts_since`) stays a stub.
    package func revposMin(for id: RevisionID, known: [RevisionID]) -> Int {
        (tree.nearest(of: known, to: id)?.generation ?? 0) + 1
    }

    // MARK: Channels and grants

    /// The principals whose rights a write changes, sorted.
    package struct ChangedPrincipals: Hashable, Sendable {
        /// Users and roles (`role:NAME`) whose channels changed.
        package var access: [String] = []
        /// Users whose roles changed.
        package var roles: [String] = []
    }

    /// Gives the document the channels and grants of its winner.
    ///
    /// A channel or grant that stays keeps its sequence: readers of it have the document already.
    mutating func assign(_ assignment: SyncAssignment, at sequence: UInt64) -> ChangedPrincipals {
        let names = Set(assignment.channels)
        for index in channels.indices {
            if names.contains(channels[index].name) {
                channels[index].enter(at: sequence)
            } else if channels[index].isCurrent, let winner = tree.winner {
                channels[index].removal = ChannelRecord.Removal(
                    sequence: sequence,
                    revision: winner.id,
                    isDeletion: winner.isDeleted
                )
            }
        }
        let known = Set(channels.map(\.name))
        channels += names.subtracting(known).map { ChannelRecord(name: $0, entered: sequence) }
        channels.sort { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        return ChangedPrincipals(
            access: access.update(to: assignment.access, at: sequence),
            roles: roleAccess.update(to: assignment.roles, at: sequence)
        )
    }

    /// Stores the channels of one revision.
    mutating func setChannels(_ names: [String], of id: RevisionID) {
        let set = Set(names).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        var number = 0
        if !set.isEmpty {
            number = (channelSets.firstIndex(of: set) ?? channelSets.count) + 1
            if number > channelSets.count { channelSets.append(set) }
        }
        tree.setChannelSet(UInt16(number), of: id)
    }

    /// Drops sets of channels that pruned revisions had.
    mutating func dropUnusedChannelSets() {
        let used = Set(tree.nodes.map(\.channelSet)).subtracting([0]).sorted()
        guard used.count < channelSets.count else { return }
        let numbers = Dictionary(zip(used, UInt16(1)...)) { first, _ in first }
        channelSets = used.map { channels(ofSet: $0) }
        tree.mapChannelSets { numbers[$0] ?? 0 }
    }
}

/// The channels and grants that the sync function gave a revision.
package struct SyncAssignment: Hashable, Sendable {
    package var channels: [String]
    /// The channels that users and roles (`role:NAME`) get.
    package var access: [String: [String]]
    /// The roles that users get.
    package var roles: [String: [String]]

    package init(
        channels: [String] = [],
        access: [String: [String]] = [:],
        roles: [String: [String]] = [:]
    ) {
        self.channels = channels
        self.access = access
        self.roles = roles
    }
}

/// The body of a revision with the metadata of its attachments.
///
/// Encoded, it is the content of a body that is stored outside of its document.
package struct RevisionBody: Hashable, Sendable {
    /// A JSON object without special members; empty for a tombstone without content.
    package var json: [UInt8] = []
    /// By name.
    package var attachments: [StoredAttachment] = []

    package init() {}

    package init(json: [UInt8], attachments: [StoredAttachment]) {
        self.json = json
        self.attachments = attachments
    }

    /// Whether there is nothing to store.
    var isBlank: Bool { attachments.isEmpty && (json.isEmpty || json == Array("{}".utf8)) }
}

extension RevisionBody: CodedFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&json, "body")
        try coder.field(&attachments, "attachments")
    }
}

/// The body of a leaf that is not the winner.
package struct LeafBody: Hashable, Sendable {
    package let revision: RevisionID
    /// By name; also if the body is stored separately, as new revisions take attachments over.
    package let attachments: [StoredAttachment]
    /// Nil if the body is a document of its own, as it is too large to be written again with each
    /// change of this one.
    package let json: [UInt8]?

    package init(revision: RevisionID, attachments: [StoredAttachment], json: [UInt8]?) {
        self.revision = revision
        self.attachments = attachments
        self.json = json
    }
}
