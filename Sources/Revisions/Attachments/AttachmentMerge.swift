package import SyncWire

/// The attachments of a new revision: those of the request with those that it takes over.
package struct AttachmentMerge: Hashable, Sendable {
    /// The attachments of the revision, by name.
    package private(set) var attachments: [StoredAttachment] = []
    /// New contents, each digest once.
    package private(set) var blobs: [AttachmentBlob] = []
    /// Attachments whose blobs no kept revision of the document has: they must be stored already,
    /// or the write is refused (`Refusal.missingBlob`).
    package private(set) var requiredBlobs: [StoredAttachment] = []

    /// Merges attachments (S 5).
    ///
    /// - Parameters:
    ///   - sent: The attachments of the request.
    ///   - inherited: Those of the parent or the nearest kept ancestor.
    ///   - generation: That of the new revision: the `revpos` of new contents, whatever the request
    ///     claims.
    /// - Throws: `Refusal` if an attachment has neither data nor a valid stub.
    package init(
        _ sent: [SentAttachment],
        inherited: [StoredAttachment],
        generation: Int
    ) throws(Refusal) {
        let inherited = Dictionary(inherited.map { ($0.name, $0) }) { first, _ in first }
        for attachment in sent {
            switch attachment.content {
            case .blob(let blob): addBlob(blob, attachment.claim, generation: generation)
            case .stub: try addStub(attachment.claim, inherited[attachment.name])
            case .follows, .missing: throw .missingData(attachment.name)
            }
        }
    }

    private mutating func addBlob(
        _ blob: AttachmentBlob,
        _ claim: StoredAttachment,
        generation: Int
    ) {
        var stored = claim
        stored.digest = blob.digest
        stored.revpos = generation
        if claim.encoding == nil { stored.length = blob.length }
        stored.encodedLength = claim.encoding == nil ? nil : blob.length
        attachments.append(stored)
        if !blobs.contains(where: { $0.digest == blob.digest }) { blobs.append(blob) }
    }

    /// - Throws: `Refusal` if the stub lacks a `revpos`, or a `digest` without inherited
    ///   attachment.
    private mutating func addStub(
        _ claim: StoredAttachment,
        _ inherited: StoredAttachment?
    ) throws(Refusal) {
        if claim.revpos < 1 { throw .invalidRevpos(claim.name) }
        if let inherited {
            attachments.append(inherited)
            return
        }
        if claim.digest.isEmpty { throw .missingDigest(claim.name) }
        // As sent, also with a `revpos` above the generation: the name of the revision depends on it.
        attachments.append(claim)
        requiredBlobs.append(claim)
    }
}
