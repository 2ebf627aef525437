internal import JSON
package import SyncWire

/// Refusals of writes, with the reasons that Sync Gateway prints (S 3).
///
/// A refused write changes nothing and has no sequence.
extension Refusal {
    // MARK: Revisions

    package static let documentExists = conflict("Document exists")
    package static let staleRevision = conflict("Document revision conflict")
    package static let invalidRevision = badRequest("Invalid revision ID")
    package static let invalidHistory = badRequest("Bad _revisions")
    package static let treeTooLarge = Refusal(
        413,
        "The document has too many revisions. Lower revs_limit or purge it, and retry."
    )

    package static func historyTooLong(_ count: Int) -> Refusal {
        badRequest("History of \(count) revisions; at most \(RevisionTree.historyMax) are allowed")
    }

    // MARK: Attachments

    package static let invalidAttachments = badRequest("Invalid _attachments")
    package static let invalidAttachmentData = badRequest("Invalid attachment data")

    /// Data of an attachment that is no string, with Go's name of its type, as in Sync Gateway.
    static func invalidAttachmentData(_ data: JSONValue) -> Refusal {
        let type =
            switch data {
            case .bool: "bool"
            case .array: "[]interface {}"
            case .object: "map[string]interface {}"
            default: "float64"
            }
        return badRequest("invalid attachment data (type \(type))")
    }

    package static func invalidAttachmentName(_ name: String) -> Refusal {
        badRequest("Attachment name '\(name)' starts with prohibited character '_'")
    }

    package static func missingData(_ name: String) -> Refusal {
        badRequest("Missing data of attachment \(quoted(name))")
    }

    package static func invalidRevpos(_ name: String) -> Refusal {
        badRequest("Missing/invalid revpos in stub attachment \(quoted(name))")
    }

    package static func missingDigest(_ name: String) -> Refusal {
        badRequest("Missing digest in stub attachment \(quoted(name))")
    }

    /// The blob that a stub names is not stored: CouchDB's status, which PouchDB expects.
    package static func missingBlob(_ name: String) -> Refusal {
        Refusal(412, "Invalid attachment stub for \(quoted(name))")
    }

    /// `number` is that of the MIME part, where the document is part 1.
    package static func unexpectedPart(_ number: Int) -> Refusal {
        badRequest("MIME part #\(number) doesn't match any attachment")
    }

    package static func tooFewParts(expected: Int, read: Int) -> Refusal {
        badRequest("Too few MIME parts: expected \(expected) attachments, got \(read)")
    }

    /// `expected` is the number of parts with the document.
    package static func tooManyParts(expected: Int) -> Refusal {
        badRequest("Too many MIME parts (expected \(expected))")
    }

    package static func lengthMismatch(_ name: String, read: Int, expected: Int) -> Refusal {
        badRequest(
            "Attachment length mismatch for \(quoted(name)): read \(read) bytes, should be \(expected)"
        )
    }

    private static func badRequest(_ reason: String) -> Refusal {
        Refusal(400, reason)
    }

    private static func conflict(_ reason: String) -> Refusal {
        Refusal(409, reason)
    }

    private static func quoted(_ name: String) -> String { "\"\(name)\"" }
}
