package import Bytes
package import SyncWire

/// One revision that a client or another database writes.
package struct RevisionRequest: Sendable {
    package enum Kind: Hashable, Sendable {
        /// A new revision whose name the gateway computes; `parent` is the `_rev` of the request.
        case edit(parent: RevisionID?)
        /// An existing revision with its ancestors, newest first (`new_edits=false`, BLIP `rev`).
        case replicated(history: [RevisionID])
    }

    package let kind: Kind
    package let content: DocumentContent
    /// The value of `_deleted`; nil if the request has none.
    ///
    /// The name of the revision depends on it even if it is false.
    package let deletion: Bool?
    package let attachments: [SentAttachment]

    package init(
        _ kind: Kind,
        _ content: DocumentContent,
        deletion: Bool? = nil,
        attachments: [SentAttachment] = []
    ) {
        self.kind = kind
        self.content = content
        self.deletion = deletion
        self.attachments = attachments
    }

    package var isDeleted: Bool { deletion ?? false }
}

/// The rules of a database for writes, from its configuration.
package struct WriteRules: Sendable {
    /// How many revisions of a branch are kept (`revs_limit`); at least 1.
    package var revsLimit: Int
    /// Whether a document may have several live branches (`allow_conflicts`).
    package var allowsConflicts: Bool
    /// Whether an edit succeeds that names the revision which a leaf has replaced by the same edit: the
    /// repetition of a request whose answer was lost.
    ///
    /// Sync Gateway answers 409. A repeated deletion stays a conflict: its author finds the document deleted.
    package var acceptsRepeatedEdits: Bool
    package var dialect: GatewayDialect
    /// The MD5 of bytes, 16 bytes.
    package var md5: @Sendable ([UInt8]) -> [UInt8]

    package init(
        revsLimit: Int,
        allowsConflicts: Bool,
        acceptsRepeatedEdits: Bool,
        dialect: GatewayDialect,
        md5: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        precondition(revsLimit >= 1, "revs_limit is at least 1")
        self.revsLimit = revsLimit
        self.allowsConflicts = allowsConflicts
        self.acceptsRepeatedEdits = acceptsRepeatedEdits
        self.dialect = dialect
        self.md5 = md5
    }
}

/// A document as a gateway reads and writes it.
package struct StoredDocument: Hashable, Sendable {
    package var metadata: DocumentMetadata
    /// The body of the winner: a JSON object without special members.
    package var body: [UInt8]
    /// The second since 1970 at which the document expires; 0 for never.
    ///
    /// The store sets it.
    package var expires: UInt64 = 0

    /// A document that does not exist yet.
    package init() { self.init(metadata: DocumentMetadata(), body: []) }

    package init(metadata: DocumentMetadata, body: [UInt8]) {
        self.metadata = metadata
        self.body = body
    }
}

extension StoredDocument: CodedFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&metadata, "metadata")
        try coder.field(&body, "body")
        try coder.field(&expires, "expiry")
    }
}

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
