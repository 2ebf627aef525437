internal import Bytes
internal import JSON

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
