package import Bytes
package import SyncWire

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
