package import SyncWire

/// Which MIME part is the content of which attachment.
///
/// Parts are matched by digest, in any order (Sync Gateway). Attachments without digest get the
/// remaining parts in their order (CouchDB, nano).
package enum AttachmentParts {
    /// A MIME part whose content is stored.
    package struct Part: Hashable, Sendable {
        /// `sha1-` and base64.
        package let sha1: String
        /// `md5-` and base64.
        package let md5: String
        package let length: Int

        package init(sha1: String, md5: String, length: Int) {
            self.sha1 = sha1
            self.md5 = md5
            self.length = length
        }
    }

    /// The attachments with the contents of the parts that follow the document.
    ///
    /// - Parameters:
    ///   - parts: All parts but the document's, in their order.
    ///   - attachments: The attachments of the request.
    ///   - order: The names of attachments in the order of the document's text; names that are
    ///     missing come last.
    /// - Returns: The attachments, with blobs for all parts.
    /// - Throws: `Refusal` if a part fits no attachment, has another length, or their numbers
    ///   differ.
    package static func match(
        _ parts: [Part],
        to attachments: [SentAttachment],
        order: [String]
    ) throws(Refusal) -> [SentAttachment] {
        var matched = attachments
        let count = attachments.count { $0.content == .follows }
        let places = Dictionary(order.enumerated().map { ($1, $0) }) { first, _ in first }
        let inOrder = matched.indices.sorted {
            places[matched[$0].name] ?? .max < places[matched[$1].name] ?? .max
        }
        for (number, part) in parts.enumerated() {
            guard number < count else { throw .tooManyParts(expected: count + 1) }
            let open = inOrder.filter { matched[$0].content == .follows }
            let byDigest = open.first { [part.sha1, part.md5].contains(matched[$0].claim.digest) }
            guard let place = byDigest ?? open.first(where: { matched[$0].claim.digest.isEmpty })
            else { throw .unexpectedPart(number + 2) }
            let claim = matched[place].claim
            if let expected = claim.encodedLength ?? claim.length, expected != part.length {
                throw .lengthMismatch(claim.name, read: part.length, expected: expected)
            }
            matched[place].content = .blob(
                AttachmentBlob(digest: part.sha1, length: part.length, bytes: nil)
            )
        }
        guard parts.count == count else { throw .tooFewParts(expected: count, read: parts.count) }
        return matched
    }
}
