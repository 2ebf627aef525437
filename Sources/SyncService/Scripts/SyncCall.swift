internal import Bytes
internal import JSON
package import Revisions
internal import SyncWire

/// One call of a sync function: the document, the one that it replaces, and the user.
package struct SyncCall: Sendable {
    package struct Old: Sendable {
        package let body: RevisionBody
        package let isDeleted: Bool

        package init(body: RevisionBody, isDeleted: Bool) {
            self.body = body
            self.isDeleted = isDeleted
        }
    }

    package let name: RevisionName
    package let isDeleted: Bool
    package let body: RevisionBody
    package let old: Old?
    /// The third argument as JSON; nil is null.
    package let context: [UInt8]?

    package init(
        _ name: RevisionName,
        isDeleted: Bool,
        body: RevisionBody,
        old: Old?,
        context: [UInt8]?
    ) {
        self.name = name
        self.isDeleted = isDeleted
        self.body = body
        self.old = old
        self.context = context
    }

    /// Writes the first argument.
    func writeDocument(to output: ByteWriter) {
        Self.write(name.document, name.revision, isDeleted: isDeleted, body: body, to: output)
    }

    /// Writes `[oldDoc, userCtx]`.
    func writeContext(to output: ByteWriter) {
        output.append(UInt8(ascii: "["))
        if let old {
            Self.write(name.document, nil, isDeleted: old.isDeleted, body: old.body, to: output)
        } else {
            output.append("null")
        }
        output.append(UInt8(ascii: ","))
        if let context { output.append(context) } else { output.append("null") }
        output.append(UInt8(ascii: "]"))
    }

    /// Writes a body behind the members of the gateway; JavaScript does not need names in order.
    private static func write(
        _ id: [UInt8],
        _ revision: RevisionID?,
        isDeleted: Bool,
        body: RevisionBody,
        to output: ByteWriter
    ) {
        output.append("{\"_id\":")
        CanonicalJSON.append(string: String(decoding: id, as: UTF8.self), to: output)
        if let revision {
            output.append(",\"_rev\":")
            CanonicalJSON.append(string: revision.description, to: output)
        }
        if isDeleted { output.append(",\"_deleted\":true") }
        if !body.attachments.isEmpty {
            output.append(",\"_attachments\":")
            output.append(CanonicalJSON.text(of: StoredAttachment.json(body.attachments)))
        }
        // A body without members is `{}`, or empty if it was never stored.
        guard body.json.count > 2 else { return output.append(UInt8(ascii: "}")) }
        output.append(UInt8(ascii: ","))
        body.json.withUnsafeBytes { output.append(ByteView($0).dropFirst(1)) }
    }
}
