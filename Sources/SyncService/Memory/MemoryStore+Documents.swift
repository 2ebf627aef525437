internal import Bytes
package import Revisions
internal import SyncWire
internal import Syncing

/// The documents of the store, and what belongs to each.
extension MemoryStore: RevisionReads {
    package func documents(_ ids: [[UInt8]]) async -> [StoredDocument?] { ids.map { document($0) } }

    package func bodies(_ names: [RevisionName]) async -> [RevisionBody?] {
        names.map { keptBody($0) }
    }

    func document(_ id: [UInt8]) -> StoredDocument? {
        guard let bytes = tables.records[id] else { return nil }
        return decode(bytes)
    }

    func keptBody(_ name: RevisionName) -> RevisionBody? { tables.kept[name].map { decode($0) } }

    private func decode<Value: CodedFields>(_ bytes: [UInt8]) -> Value {
        do {
            return try Value(decoding: bytes)
        } catch {
            preconditionFailure("the store reads what it has written: \(error)")
        }
    }

    // MARK: Changes

    /// Replaces a document and its rows, and tells those who follow it.
    ///
    /// - Returns: The principals whose grants it changed.
    @discardableResult
    func replace(
        _ before: StoredDocument?,
        by write: StoredWrite,
        _ id: [UInt8],
        expires: UInt64
    ) -> Set<PrincipalKey> {
        for blob in write.blobs {
            if let bytes = blob.bytes { keepBlob(bytes, blob.digest) }
        }
        for body in write.separateBodies { keep(body.body, RevisionName(body.revision, of: id)) }
        if let archived = write.archived {
            let name = RevisionName(archived.revision, of: id)
            keep(archived.body, name)
            removeLater(.body(name))
        }
        var after = write.document
        after.expires = expires
        tables.expiries[id] = expires == 0 ? nil : expires
        setOwners(of: after.metadata.blobs, replacing: before?.metadata.blobs ?? [])
        let bytes = after.encoded
        count(bytes.count - (tables.records[id]?.count ?? -id.count - MemoryStore.documentOverhead))
        tables.records[id] = bytes
        for revision in write.removedBodies { removeLater(.body(RevisionName(revision, of: id))) }
        let changed = replaceGrants(
            of: before?.metadata,
            by: after.metadata,
            at: after.metadata.sequence
        )
        record(after.metadata, id, changed: changed)
        return changed
    }

    /// Removes a document and all that belongs to it.
    func remove(_ id: [UInt8]) {
        guard let before = document(id) else { return }
        setOwners(of: [], replacing: before.metadata.blobs)
        for node in before.metadata.tree.revisions {
            if let bytes = tables.kept.removeValue(forKey: RevisionName(node.id, of: id)) {
                count(-bytes.count - MemoryStore.entryOverhead)
            }
        }
        let bytes = tables.records.removeValue(forKey: id)
        tables.expiries[id] = nil
        count(-(bytes?.count ?? 0) - id.count - MemoryStore.documentOverhead)
        let changed = replaceGrants(of: before.metadata, by: DocumentMetadata(), at: newest)
        log.purge(id)
        notify(changed.map { .principal($0) })
    }

    private func record(_ metadata: DocumentMetadata, _ id: [UInt8], changed: Set<PrincipalKey>) {
        guard let winner = metadata.tree.winner else { return }
        var flags: LogRow.Flags = []
        if winner.isDeleted { flags.insert(.deleted) }
        if metadata.tree.isBranched { flags.insert(.branched) }
        if metadata.tree.hasConflict { flags.insert(.conflict) }
        if metadata.tree.newest != winner.id { flags.insert(.hidden) }
        let row = LogRow(metadata.sequence, id, revision: winner.id, flags: flags, entered: 0)
        let names = metadata.channels.filter(\.isCurrent).compactMap { ChannelName($0.name) }
        let channels = log.record(row, in: Set(names))
        notify(channels.map { .channel($0) } + changed.map { .principal($0) })
    }

    private func keep(_ body: RevisionBody, _ name: RevisionName) {
        let bytes = body.encoded
        count(bytes.count - (tables.kept[name]?.count ?? -MemoryStore.entryOverhead))
        tables.kept[name] = bytes
    }

    // MARK: Contents of attachments

    func keepBlob(_ bytes: [UInt8], _ digest: String) {
        guard tables.blobs[digest] == nil else { return }
        tables.blobs[digest] = Blob(bytes: bytes)
        count(bytes.count + MemoryStore.entryOverhead)
    }

    private func setOwners(of digests: Set<String>, replacing old: Set<String>) {
        for digest in digests.subtracting(old) { tables.blobs[digest]?.owners += 1 }
        for digest in old.subtracting(digests) {
            tables.blobs[digest]?.owners -= 1
            if tables.blobs[digest]?.owners == 0 { removeLater(.blob(digest)) }
        }
    }

    // MARK: Grants

    /// Replaces the grants of a document; principals remember what they lost by it.
    private func replaceGrants(
        of before: DocumentMetadata?,
        by after: DocumentMetadata,
        at sequence: UInt64
    ) -> Set<PrincipalKey> {
        let old = before?.grants ?? DocumentGrants()
        let new = after.grants
        guard old != new else { return [] }
        // Only feeds of the dialect of 3 report what was lost, and only what the document granted can be.
        var former: [PrincipalKey: Access] = [:]
        if rules.dialect == .third {
            for key in Set(old.channels.keys).union(old.roles.keys) {
                former[key] = storedPrincipal(key).map { Access(of: $0, documents: grants) }
            }
        }
        // A copy of the index that lived until here would be copied with each document.
        let changed = grants.replace(old, with: new)
        for key in changed {
            guard let before = former[key], var principal = storedPrincipal(key) else { continue }
            let history = (principal.channelHistory, principal.roleHistory)
            let after = Access(of: principal, documents: grants)
            principal.recordLosses(from: before, to: after, at: sequence)
            guard history != (principal.channelHistory, principal.roleHistory) else { continue }
            setSide(key.sideKey, principal.encoded, expires: 0)
        }
        return changed
    }

    func storedPrincipal(_ key: PrincipalKey) -> Principal? {
        tables.sides[key.sideKey].flatMap { Principal(stored: $0.document) }
    }
}

extension DocumentMetadata {
    /// The grants of the document, by principal.
    fileprivate var grants: DocumentGrants {
        var channels: [PrincipalKey: GrantSet<ChannelName>] = [:]
        var roles: [PrincipalKey: GrantSet<String>] = [:]
        for grant in access.grants {
            guard let key = PrincipalKey(accessName: grant.principal),
                let name = ChannelName(grant.target)
            else { continue }
            channels[key, default: GrantSet()].insert(name, at: grant.sequence)
        }
        for grant in roleAccess.grants {
            guard let key = PrincipalKey(accessName: grant.principal) else { continue }
            roles[key, default: GrantSet()].insert(grant.target, at: grant.sequence)
        }
        return DocumentGrants(channels: channels, roles: roles)
    }
}
