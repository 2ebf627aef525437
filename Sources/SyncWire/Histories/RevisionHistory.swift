internal import Bytes
internal import JSON

/// A revision and its ancestors, newest first, without gaps: the member `_revisions`.
package struct RevisionHistory: Equatable, Sendable {
    /// The generation of the newest revision; at least the number of digests.
    package let start: Int
    /// One digest for each generation from `start` down; at least one.
    package let digests: [[UInt8]]

    /// - Precondition: There is a digest, none is empty, and `start` is at least their number.
    package init(start: Int, digests: [[UInt8]]) {
        precondition(
            !digests.isEmpty && start >= digests.count && digests.allSatisfy { !$0.isEmpty },
            "a history has a digest for each of its generations"
        )
        self.start = start
        self.digests = digests
    }

    /// Parses `{"start":N,"ids":["DIGEST",...]}`.
    ///
    /// - Throws: `.badMember("_revisions")` if it is anything else, or exceeds `SyncLimits.historyRevisionsMax` or
    ///   `SyncLimits.historyBytesMax`.
    package init(_ json: [UInt8]) throws(RequestRefusal) {
        guard json.count <= SyncLimits.historyBytesMax + 4 * SyncLimits.historyRevisionsMax,
            let value = json.withUnsafeBytes({ JSONValue.parse(ByteView($0)) }),
            let start = value["start"]?.double.flatMap(Int.init(exactly:)),
            let ids = value["ids"]?.array,
            1...min(max(start, 1), SyncLimits.historyRevisionsMax) ~= ids.count
        else { throw .badMember("_revisions") }
        var digests: [[UInt8]] = []
        var bytesCount = 0
        for id in ids {
            guard let digest = id.string.map({ Array($0.utf8) }), !digest.isEmpty,
                digest.count <= RevisionID.digestBytesMax
            else { throw .badMember("_revisions") }
            bytesCount += digest.count
            digests.append(digest)
        }
        guard bytesCount <= SyncLimits.historyBytesMax, start >= 1 else {
            throw .badMember("_revisions")
        }
        self.init(start: start, digests: digests)
    }

    /// The history of `revision` with its ancestors, newest first, up to the first gap in their generations.
    package init(of revision: RevisionID, ancestors: some Sequence<RevisionID>) {
        var digests = [revision.digest]
        for ancestor in ancestors {
            guard ancestor.generation == revision.generation - digests.count else { break }
            digests.append(ancestor.digest)
        }
        self.init(start: revision.generation, digests: digests)
    }

    package var newest: RevisionID { RevisionID(generation: start, digest: digests[0]) }

    /// All revisions, newest first.
    package var revisions: [RevisionID] {
        digests.enumerated().map { RevisionID(generation: start - $0.offset, digest: $0.element) }
    }

    /// Canonical JSON: `{"ids":["DIGEST",...],"start":N}`.
    package var json: [UInt8] {
        let output = ByteWriter(capacity: 32 + 36 * digests.count)
        output.append("{\"ids\":[")
        CanonicalJSON.appendList(digests, to: output) { digest in
            CanonicalJSON.append(string: String(decoding: digest, as: UTF8.self), to: output)
        }
        output.append("],\"start\":")
        output.append(text: String(start))
        output.append(UInt8(ascii: "}"))
        return output.bytes
    }
}

extension RevisionID {
    /// The longest digest: that of a revision of the first generation.
    package static let digestBytesMax = bytesMax - 2
}

/// Lists of names in requests: revision ids, document ids, channels.
///
/// Revision ids stay texts, because a request may name one that no revision can have, and gets it back as
/// missing.
package enum RevisionList {
    /// The strings of a JSON array, at most `SyncLimits.listMax`; nil if `value` is not an array of strings.
    ///
    /// - Throws: `.tooMany(name)`.
    static func strings(
        of value: JSONValue?,
        named name: String
    ) throws(RequestRefusal) -> [String]? {
        guard let elements = value?.array else { return nil }
        guard elements.count <= SyncLimits.listMax else { throw .tooMany(name) }
        var strings: [String] = []
        strings.reserveCapacity(elements.count)
        for element in elements {
            guard let string = element.string else { return nil }
            strings.append(string)
        }
        return strings
    }

    /// The strings of a JSON array in a query parameter; nil if `text` is something else.
    ///
    /// - Throws: `.tooMany(name)`.
    package static func parse(
        _ text: String,
        named name: String
    ) throws(RequestRefusal) -> [String]? {
        guard text.utf8.count <= SyncLimits.requestBytesMax else { throw .tooMany(name) }
        return try strings(of: JSONValue.parse(text), named: name)
    }
}

/// The parameter `open_revs`: which revisions of a document are asked for.
package enum OpenRevisions: Equatable, Sendable {
    /// All leaves.
    case all
    case listed([String])

    /// Parses `all` or a JSON array of revision ids.
    ///
    /// - Throws: `.badOpenRevisions`, or `.tooMany` above `SyncLimits.listMax`.
    package init(_ text: String) throws(RequestRefusal) {
        if text == "all" {
            self = .all
            return
        }
        // As Go reads null.
        let text = text == "null" ? "[]" : text
        guard let revisions = try RevisionList.parse(text, named: "open_revs") else {
            throw .badOpenRevisions
        }
        self = .listed(revisions)
    }
}
