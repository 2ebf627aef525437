internal import Bytes
internal import JSON
package import Revisions
package import SyncWire
internal import Syncing

/// The ids of a database, for `_all_docs`, and what replicators ask about many documents.
extension SyncDatabase {
    /// A document of `_all_docs` that the requester sees.
    package struct ListedDocument: Sendable {
        package let id: String
        package let document: StoredDocument
        /// The channels of the document that the requester has.
        package let channels: [String]

        /// The grants of the document as JSON: an object with the names of channels by user, and of roles by user
        /// behind `role:`; nil if there are none.
        package var access: [UInt8]? {
            let metadata = document.metadata
            let all =
                metadata.access.grants.map { ($0.principal, $0.target) }
                + metadata.roleAccess.grants.map { ("role:" + $0.principal, $0.target) }
            guard !all.isEmpty else { return nil }
            let targets = Dictionary(grouping: all, by: \.0)
            let members = targets.map { name, targets in
                JSONValue.Member(name: name, value: .array(targets.map { .string($0.1) }))
            }
            return CanonicalJSON.text(of: .object(members))
        }

        package var revision: RevisionID {
            guard let winner = document.metadata.tree.winner else {
                preconditionFailure("a stored document has a revision")
            }
            return winner.id
        }
    }

    /// How many documents are read at a time.
    package static let pageMax = 100

    /// Where a list of ids continues, in the order of their bytes.
    package enum ListPosition: Sendable {
        /// Ascending from this id on.
        case from([UInt8])
        /// Descending below this id; nil for the highest one.
        case below([UInt8]?)
    }

    /// The next live documents.
    ///
    /// - Parameters:
    ///   - position: Where the page begins.
    ///   - requester: Who sees the documents of its channels only.
    /// - Returns: The documents, and where the list continues; nil at the end.
    package func list(
        _ position: ListPosition,
        for requester: Requester
    ) async -> (documents: [ListedDocument], next: ListPosition?) {
        let ids: [[UInt8]]
        switch position {
        case .from(let first): ids = await stores.channels.ids(from: first, atMost: Self.pageMax)
        case .below(let bound): ids = await stores.channels.ids(below: bound, atMost: Self.pageMax)
        }
        let documents = await stores.reads.documents(ids)
        let found = zip(ids, documents).compactMap { id, document in
            document.flatMap { listed(String(decoding: id, as: UTF8.self), $0, for: requester) }
        }
        guard ids.count == Self.pageMax, let last = ids.last else { return (found, nil) }
        switch position {
        // No id is between an id and the same with a zero byte behind it.
        case .from: return (found, .from(last + [0]))
        case .below: return (found, .below(last))
        }
    }

    private func listed(
        _ id: String,
        _ document: StoredDocument,
        for requester: Requester
    ) -> ListedDocument? {
        guard let winner = document.metadata.tree.winner, !winner.isDeleted,
            let channels = requester.visible(document.metadata.currentChannels)
        else { return nil }
        return ListedDocument(id: id, document: document, channels: channels)
    }

    /// Named documents of `_all_docs`.
    ///
    /// - Returns: For each id the document, or the status of its row.
    package func list(
        _ ids: [String],
        for requester: Requester
    ) async -> [Result<ListedDocument, Refusal>] {
        let documents = await stores.reads.documents(ids.map { Array($0.utf8) })
        return zip(ids, documents).map { id, document in
            guard Self.isDocumentID(id) else { return .failure(.invalidDocumentID) }
            guard let document, let winner = document.metadata.tree.winner else {
                return .failure(.missing)
            }
            if !requester.mayRead(document.metadata.channels(of: winner.id)) {
                return .failure(requester.listRefusal)
            }
            if winner.isDeleted { return .failure(Refusal(404, "deleted")) }
            let channels = requester.visible(document.metadata.currentChannels)
            return channels.map {
                .success(ListedDocument(id: id, document: document, channels: $0))
            } ?? .failure(requester.listRefusal)
        }
    }

    /// The revisions that a device should send, of those that it has of a document.
    package struct Lack: Sendable {
        package let missing: [String]
        package let ancestors: [String]
    }

    /// The answers of `_revs_diff`; nil for a document of which nothing is missing.
    ///
    /// A device is never asked for design documents.
    package func difference(
        to documents: [(id: String, revisions: [String])],
        for requester: Requester
    ) async -> [Lack?] {
        let stored = await stores.reads.documents(documents.map { Array($0.id.utf8) })
        return zip(documents, stored).map { asked, document in
            if asked.id.hasPrefix("_design/"), !requester.isAdministrator { return nil }
            guard let tree = document?.metadata.tree else {
                return Lack(missing: asked.revisions, ancestors: [])
            }
            let named = asked.revisions.map { ($0, RevisionID($0)) }
            let found = tree.difference(to: named.compactMap(\.1))
            let absent = Set(found.missing)
            let missing = named.filter { $0.1.map(absent.contains) ?? true }.map(\.0)
            guard !missing.isEmpty else { return nil }
            return Lack(missing: missing, ancestors: found.possibleAncestors.map(\.description))
        }
    }
}

extension DocumentMetadata {
    /// The channels of the winner.
    var currentChannels: [String] { channels.filter(\.isCurrent).map(\.name) }
}
