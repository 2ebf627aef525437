internal import Bytes
package import SyncWire
internal import Syncing

/// Attachments' contents, and documents beside the synchronised ones.
extension MemoryStore: Blobs {
    /// - Throws: `Refusal` 507 if there is no room.
    package func store(_ bytes: [UInt8], digest: String) async throws(Refusal) {
        if let full = fullRefusal { throw full }
        keepBlob(bytes, digest)
        // If no document names it, as the write is refused, nothing else removes it.
        removeLater(.blob(digest))
    }

    package func count(of digest: String) async -> Int? { tables.blobs[digest]?.bytes.count }

    package func read(_ digest: String, _ range: Range<Int>) async -> [UInt8]? {
        tables.blobs[digest].map { range == 0..<$0.bytes.count ? $0.bytes : Array($0.bytes[range]) }
    }
}

extension MemoryStore: SideDocumentStore {
    package func get(_ key: String) async -> SideDocument? {
        guard let side = tables.sides[key], side.expires == 0 || nowSeconds < side.expires else {
            return nil
        }
        return side.document
    }

    /// - Throws: `Refusal` 507 if there is no room.
    package func put(
        _ content: SideContent,
        at key: String,
        replacing version: UInt64
    ) async throws(Refusal) -> SideDocument? {
        guard tables.sides[key]?.document.version ?? 0 == version else { return nil }
        if let full = fullRefusal { throw full }
        switch content {
        case .plain(let bytes, let expires): return setSide(key, bytes, expires: expires)
        case .numbered(let principal, let bytes):
            let sequence = drawSequence()
            let stored = setSide(key, bytes(sequence), expires: 0)
            let row = LogRow(
                sequence,
                principal.rowID,
                revision: nil,
                flags: .principal,
                entered: 0
            )
            _ = log.record(row)
            notify([.principal(principal)])
            return stored
        }
    }

    package func remove(_ key: String, version: UInt64) async -> Bool {
        guard tables.sides[key]?.document.version == version else { return false }
        removeSide(key)
        if let principal = PrincipalKey(sideKey: key) { recordAccess(of: principal) }
        return true
    }

    package func keys(withPrefix prefix: String) async -> [String] {
        tables.sides.keys.filter { $0.utf8.starts(with: prefix.utf8) }
            .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    @discardableResult
    func setSide(_ key: String, _ bytes: [UInt8], expires: UInt64) -> SideDocument {
        let document = SideDocument(bytes, version: nextVersion())
        let old = tables.sides[key].map { $0.document.bytes.count }
        count(bytes.count - (old ?? -key.utf8.count - MemoryStore.entryOverhead))
        tables.sides[key] = Side(document: document, expires: expires)
        return document
    }

    func removeSide(_ key: String) {
        guard let side = tables.sides.removeValue(forKey: key) else { return }
        count(-side.document.bytes.count - key.utf8.count - MemoryStore.entryOverhead)
    }
}

extension PrincipalKey {
    static let userPrefix = "_sync:user:"
    static let rolePrefixOfSides = "_sync:role:"

    /// The key of the side document, as Sync Gateway names it in a bucket.
    var sideKey: String { (kind == .user ? Self.userPrefix : Self.rolePrefixOfSides) + name }

    /// Nil for the key of another side document.
    init?(sideKey: String) {
        let prefixes = [(Kind.user, Self.userPrefix), (.role, Self.rolePrefixOfSides)]
        guard let (kind, prefix) = prefixes.first(where: { sideKey.hasPrefix($0.1) }) else {
            return nil
        }
        self.init(kind, String(sideKey.dropFirst(prefix.count)))
    }

    /// As `access` and `role` name it in documents.
    var accessName: String { kind == .user ? name : PrincipalKey.rolePrefix + name }

    /// The id of its row in the feed of an administrator.
    var rowID: [UInt8] { Array(((kind == .user ? "_user/" : "_role/") + name).utf8) }
}

extension Principal {
    /// A principal that was stored by its key.
    init?(stored document: SideDocument?) {
        guard let document else { return nil }
        do {
            try self.init(decoding: document.bytes, skipsRest: true)
        } catch {
            preconditionFailure("a stored principal is readable: \(error)")
        }
    }
}
