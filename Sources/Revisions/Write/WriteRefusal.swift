/// Why a write is refused: the HTTP status and the reason, as Sync Gateway prints them (S 3).
///
/// A refused write changes nothing and has no sequence.
package struct WriteRefusal: Error, Hashable, Sendable {
    package let status: Int
    package let reason: String

    package init(status: Int, reason: String) {
        self.status = status
        self.reason = reason
    }

    // MARK: Revisions

    package static let documentExists = conflict("Document exists")
    package static let staleRevision = conflict("Document revision conflict")
    package static let invalidRevision = badRequest("Invalid revision ID")
    package static let invalidHistory = badRequest("Bad _revisions")
    package static let treeTooLarge = WriteRefusal(
        status: 413,
        reason: "The document has too many revisions. Lower revs_limit or purge it, and retry."
    )

    package static func historyTooLong(_ count: Int) -> WriteRefusal {
        badRequest("History of \(count) revisions; at most \(RevisionTree.historyMax) are allowed")
    }

    // MARK: Attachments

    package static let invalidAttachments = badRequest("Invalid _attachments")
    package static let invalidAttachmentData = badRequest("Invalid attachment data")

    package static func invalidAttachmentName(_ name: String) -> WriteRefusal {
        badRequest("Attachment name '\(name)' starts with prohibited character '_'")
    }

    package static func missingData(_ name: String) -> WriteRefusal {
        badRequest("Missing data of attachment \(quoted(name))")
    }

    package static func invalidRevpos(_ name: String) -> WriteRefusal {
        badRequest("Missing/invalid revpos in stub attachment \(quoted(name))")
    }

    package static func missingDigest(_ name: String) -> WriteRefusal {
        badRequest("Missing digest in stub attachment \(quoted(name))")
    }

    /// The blob that a stub names is not stored: CouchDB's status, which PouchDB expects.
    package static func missingBlob(_ name: String) -> WriteRefusal {
        WriteRefusal(status: 412, reason: "Invalid attachment stub for \(quoted(name))")
    }

    /// `number` is that of the MIME part, where the document is part 1.
    package static func unexpectedPart(_ number: Int) -> WriteRefusal {
        badRequest("MIME part #\(number) doesn't match any attachment")
    }

    package static func tooFewParts(expected: Int, read: Int) -> WriteRefusal {
        badRequest("Too few MIME parts: expected \(expected) attachments, got \(read)")
    }

    /// `expected` is the number of parts with the document.
    package static func tooManyParts(expected: Int) -> WriteRefusal {
        badRequest("Too many MIME parts (expected \(expected))")
    }

    package static func lengthMismatch(_ name: String, read: Int, expected: Int) -> WriteRefusal {
        badRequest(
            "Attachment length mismatch for \(quoted(name)): read \(read) bytes, should be \(expected)"
        )
    }

    private static func badRequest(_ reason: String) -> WriteRefusal {
        WriteRefusal(status: 400, reason: reason)
    }

    private static func conflict(_ reason: String) -> WriteRefusal {
        WriteRefusal(status: 409, reason: reason)
    }

    private static func quoted(_ name: String) -> String { "\"\(name)\"" }
}
