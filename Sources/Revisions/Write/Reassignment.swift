package import SyncWire

/// A document whose channels and grants are computed again, because the database has another sync function.
///
/// The revisions stay as they are: only what the sync function gives is replaced.
package struct Reassignment: Sendable {
    private let document: StoredDocument
    private var assignments: [RevisionID: SyncAssignment] = [:]

    package init(of document: StoredDocument) { self.document = document }

    /// The leaves whose revisions the sync function validates again.
    package var leaves: [RevisionNode] { document.metadata.tree.leaves }

    /// Sets what the sync function gives a leaf; what it refuses has no channels and grants nothing.
    package mutating func assign(_ assignment: SyncAssignment, to leaf: RevisionID) {
        precondition(document.metadata.tree.isLeaf(leaf), "only leaves have channels of their own")
        assignments[leaf] = assignment
    }

    /// Whether the document differs from the stored one.
    package var isChange: Bool {
        let metadata = document.metadata
        return assignments.contains { id, assignment in
            Set(metadata.channels(of: id)) != Set(assignment.channels)
                || metadata.tree.winner?.id == id && !metadata.has(assignment)
        }
    }

    /// Makes the changed document.
    ///
    /// - Parameters:
    ///   - sequence: Above that of the document: feeds show its winner again.
    ///   - timeSaved: Nanoseconds since 1970.
    /// - Returns: What to store; its revision is the winner.
    package func write(at sequence: UInt64, timeSaved: UInt64) -> StoredWrite {
        guard let winner = document.metadata.tree.winner?.id else {
            preconditionFailure("a stored document has a revision")
        }
        var write = StoredWrite(revision: winner, document: document, blobs: [])
        write.document.metadata.begin(document.metadata.tree, at: sequence, timeSaved)
        for (id, assignment) in assignments {
            write.document.metadata.setChannels(assignment.channels, of: id)
        }
        if let current = assignments[winner] {
            write.changed = write.document.metadata.assign(current, at: sequence)
        }
        write.document.metadata.dropUnusedChannelSets()
        return write
    }
}

extension DocumentMetadata {
    /// Whether the document has exactly these channels and grants.
    fileprivate func has(_ assignment: SyncAssignment) -> Bool {
        Set(channels.filter(\.isCurrent).map(\.name)) == Set(assignment.channels)
            && access.targets == Self.sets(assignment.access)
            && roleAccess.targets == Self.sets(assignment.roles)
    }

    private static func sets(_ targets: [String: [String]]) -> [String: Set<String>] {
        targets.mapValues { Set($0) }.filter { !$0.value.isEmpty }
    }
}

extension GrantTable {
    fileprivate var targets: [String: Set<String>] {
        Dictionary(grouping: grants, by: \.principal).mapValues { Set($0.map(\.target)) }
    }
}
