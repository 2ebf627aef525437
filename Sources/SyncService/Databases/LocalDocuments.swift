internal import Bytes
package import JSON
package import SyncWire
package import Syncing

/// Checkpoints of replicators: `_local/ID`.
extension SyncDatabase {
    /// - Returns: Nil if there is none.
    package func localDocument(_ id: String) async -> LocalDocument? {
        await storedLocal(id)?.document
    }

    /// Writes a checkpoint.
    ///
    /// - Throws: `Refusal` 400, 404, 409 or 507.
    package func putLocal(
        _ id: String,
        _ body: JSONValue
    ) async throws(Refusal) -> LocalDocument {
        while true {
            let stored = await storedLocal(id)
            switch LocalDocument.put(body, existing: stored?.document) {
            case .refused(let refusal): throw refusal
            case .deleted: preconditionFailure("a PUT deletes nothing")
            case .stored(let document):
                let written = try await stores.sides.put(
                    .plain(document.stored),
                    at: Self.localKey(id),
                    replacing: stored?.version ?? 0
                )
                // Another request wrote it meanwhile.
                if written != nil { return document }
            }
        }
    }

    /// Deletes a checkpoint.
    ///
    /// - Throws: `Refusal` 404 or 409.
    package func deleteLocal(_ id: String, revision: String?) async throws(Refusal) {
        while true {
            let stored = await storedLocal(id)
            if case .refused(let refusal) = LocalDocument.delete(
                revision,
                existing: stored?.document
            ) {
                throw refusal
            }
            guard let stored else { return }
            if await stores.sides.remove(Self.localKey(id), version: stored.version) { return }
        }
    }

    private static func localKey(_ id: String) -> String { "_sync:local:" + id }

    private func storedLocal(_ id: String) async -> (document: LocalDocument, version: UInt64)? {
        guard let side = await stores.sides.get(Self.localKey(id)) else { return nil }
        let document = side.bytes.withUnsafeBytes { LocalDocument(stored: ByteView($0)) }
        return document.map { ($0, side.version) }
    }
}
