internal import Bytes
package import SyncWire

extension RevisionRequest {
    /// The name of an edit, as Sync Gateway computes it (S 1).
    ///
    /// The same edit of the same revision has the same name at every gateway, so that two gateways that
    /// receive it make no conflict.
    ///
    /// - Parameters:
    ///   - parent: The replaced revision, of a generation below `Int.max`; nil for the first one.
    ///   - attachments: Those of the new revision, as stored.
    ///   - rules: Dialect and hash.
    /// - Returns: The name, one generation above the parent's.
    package func name(
        replacing parent: RevisionID?,
        _ attachments: [StoredAttachment],
        _ rules: WriteRules
    ) -> RevisionID {
        let hasAttachments = rules.dialect.digestsAttachments && !attachments.isEmpty
        let input = ByteWriter(capacity: content.bytes.count + 64)
        content.appendDigestInput(
            parent: parent,
            attachments: hasAttachments
                ? CanonicalJSON.text(of: StoredAttachment.json(attachments)) : nil,
            deletion: deletion,
            to: input
        )
        let digest = PackedDigest(isHexadecimal: true, bytes: rules.md5(input.bytes)).text
        return RevisionID(generation: (parent?.generation ?? 0) + 1, digest: digest)
    }
}
