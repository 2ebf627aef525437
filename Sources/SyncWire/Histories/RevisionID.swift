package import Bytes

/// The name of a revision: `GENERATION-DIGEST`, for example `2-7051cbe5c8faecd085a3fa619e6e6337`.
///
/// The digest is whatever bytes the author of the revision chose. Gateways, PouchDB and Couchbase Lite make
/// it of other things, and no server verifies it.
package struct RevisionID: Hashable, Sendable {
    /// The longest revision id, in bytes; digests of clients have at most 64.
    package static let bytesMax = 250

    /// One more than that of the parent; at least 1.
    package let generation: Int
    package let digest: [UInt8]

    /// - Precondition: `generation` is at least 1 and `digest` is not empty.
    package init(generation: Int, digest: [UInt8]) {
        precondition(generation >= 1 && !digest.isEmpty, "a revision has a generation and a digest")
        self.generation = generation
        self.digest = digest
    }

    /// Parses `GENERATION-DIGEST`; nil if `text` is anything else, or longer than `bytesMax`.
    package init?(_ text: ByteView) {
        guard text.count <= RevisionID.bytesMax else { return nil }
        var generation = 0
        var length = 0
        while length < text.count, let digit = RevisionID.digit(text[length]) {
            let (tens, isTooLarge) = generation.multipliedReportingOverflow(by: 10)
            guard !isTooLarge, tens <= Int.max - digit else { return nil }
            generation = tens + digit
            length += 1
        }
        guard generation >= 1, length + 1 < text.count, text[length] == UInt8(ascii: "-") else {
            return nil
        }
        self.generation = generation
        digest = text.dropFirst(length + 1).bytes
    }

    package init?(_ text: String) {
        guard let parsed = text.withView({ RevisionID($0) }) else { return nil }
        self = parsed
    }

    /// Whether a text is a generation without a digest, `2-`: for Sync Gateway a revision, which no document has.
    package static func lacksDigest(_ text: String) -> Bool {
        text.hasSuffix("-") && RevisionID(text + "0") != nil
    }

    private static func digit(_ byte: UInt8) -> Int? {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) ? Int(byte - UInt8(ascii: "0")) : nil
    }
}

/// By generation, then by the bytes of the digest: the order in which the winner of a conflict is the last.
extension RevisionID: Comparable {
    package static func < (one: RevisionID, other: RevisionID) -> Bool {
        guard one.generation == other.generation else { return one.generation < other.generation }
        return one.digest.lexicographicallyPrecedes(other.digest)
    }
}

extension RevisionID: CustomStringConvertible {
    package var description: String { "\(generation)-\(String(decoding: digest, as: UTF8.self))" }
}
