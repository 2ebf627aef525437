package import Bytes

/// The key of a row of an index, whose bytes are in the order of the rows.
///
///     sort key | document ID, escaped (`ZeroEscape`) | 00 | ordinal, big endian
///
/// No sort key is a proper prefix of another, so the rows of a key are exactly the rows that begin
/// with its sort key. The same holds for a group: the rows of a group begin with the group's
/// prefix. The bounds below rest on this.
package struct RowKey {
    /// The bytes behind the escaped document ID.
    private static let tailCount = 3

    package let sortKey: ByteView
    /// The document's ID as the row key has it, for copies and comparisons.
    package let escapedID: ByteView
    /// How many equal keys the document emitted before this one.
    package let ordinal: UInt16

    /// Splits the bytes of a row key into views of them; nil if they are not a row key.
    ///
    /// It checks the structure, not the content of strings and numbers.
    package init?(_ bytes: ByteView) {
        guard let length = RowKey.sortKeyLength(bytes) else { return nil }
        self.init(bytes, sortKeyLength: length)
    }

    /// As `init(_:)`, if the length of the sort key at the front is known.
    package init?(_ bytes: ByteView, sortKeyLength length: Int) {
        guard let end = ZeroEscape.end(of: bytes, from: length),
            bytes.count - end == RowKey.tailCount
        else { return nil }
        sortKey = bytes.slice(0, length)
        escapedID = bytes.slice(length, end - length)
        ordinal = bytes.bigEndian(at: end + 1, as: UInt16.self)
    }

    /// Appends the document's ID; false, with nothing appended, if its escapes are malformed.
    package func appendID(to output: ByteWriter) -> Bool {
        ZeroEscape.appendUnescaped(escapedID, to: output)
    }

    /// Appends the row key of a document whose ID is not escaped yet.
    package static func append(
        sortKey: ByteView,
        id: ByteView,
        ordinal: UInt16,
        to output: ByteWriter
    ) {
        output.append(sortKey)
        ZeroEscape.append(id, to: output)
        output.append(ZeroEscape.end)
        output.append(bigEndian: ordinal)
    }

    /// The length of the sort key at the front of `bytes`; nil if none is there.
    package static func sortKeyLength(_ bytes: ByteView) -> Int? {
        var cursor = SortKeyCursor(bytes)
        return cursor.skipValue() ? cursor.offset : nil
    }
}

// MARK: Bounds

/// A bound is a byte string between rows: a row is in a range if `lower <= row < upper`.
///
/// An inclusive bound of a range is before or after all rows of its key as the range's direction
/// requires; an exclusive one is on the other side. Descending ranges exchange the two bounds.
extension RowKey {
    /// Appends the bound before all rows of a key; with `id`, before the rows of this document and
    /// of those with greater IDs.
    package static func appendBound(before sortKey: ByteView, id: ByteView?, to output: ByteWriter)
    {
        output.append(sortKey)
        if let id { ZeroEscape.append(id, to: output) }
    }

    /// Appends the bound after all rows of a key; with `id`, after the rows of this document and of
    /// those with smaller IDs.
    package static func appendBound(after sortKey: ByteView, id: ByteView?, to output: ByteWriter) {
        guard let id else { return appendBound(afterPrefix: sortKey, to: output) }
        output.append(sortKey)
        ZeroEscape.append(id, to: output)
        output.append(ZeroEscape.end)
        // One byte more than an ordinal has, so that the bound is above every ordinal.
        for _ in 0..<3 { output.append(0xff) }
    }

    /// Appends the bound after all byte strings that begin with `prefix`, the least there is.
    ///
    /// It is not `prefix` and FF: a document ID that begins with FF and another byte is greater.
    ///
    /// - Precondition: `prefix` begins with a sort key's tag, so it has a byte below FF.
    package static func appendBound(afterPrefix prefix: ByteView, to output: ByteWriter) {
        var count = prefix.count
        while count > 0, prefix[count - 1] == 0xff { count -= 1 }
        precondition(count > 0, "a sort key begins with a tag, which is below FF")
        output.append(prefix.slice(0, count - 1))
        output.append(prefix[count - 1] + 1)
    }
}

// MARK: Groups

extension RowKey {
    /// The bytes that all rows of a group begin with, and no other rows.
    package struct GroupPrefix: Equatable, Sendable {
        package let length: Int
        /// Whether the prefix ends behind an array's first elements, without the 00 that would make
        /// it the sort key of the array of these elements, which is the group's key.
        package let isOpenArray: Bool
    }

    /// The prefix of the group to which the key at the front of `bytes` belongs, if arrays are
    /// grouped by their first `level` elements; nil if no key is there.
    ///
    /// An array of fewer elements, and a value that is no array, is a group of its own.
    ///
    /// - Precondition: `level` is positive.
    package static func groupPrefix(of bytes: ByteView, level: Int) -> GroupPrefix? {
        precondition(level > 0, "level 0 makes one group of all rows and has no prefix")
        guard !bytes.isEmpty, bytes[0] == SortKeyTag.array else {
            return sortKeyLength(bytes).map { GroupPrefix(length: $0, isOpenArray: false) }
        }
        var cursor = SortKeyCursor(bytes, at: 1)
        var count = 0
        while count < level, !cursor.isAtEndTag {
            guard cursor.skipValue() else { return nil }
            count += 1
        }
        if count == level { return GroupPrefix(length: cursor.offset, isOpenArray: true) }
        return GroupPrefix(length: cursor.offset + 1, isOpenArray: false)
    }

    /// Appends the sort key of a group's key, from the bytes that `prefix` was found in.
    package static func appendSortKey(
        of prefix: GroupPrefix,
        in bytes: ByteView,
        to output: ByteWriter
    ) {
        output.append(bytes.slice(0, prefix.length))
        if prefix.isOpenArray { output.append(SortKeyTag.end) }
    }
}

/// Finds where the values of a sort key end, without decoding them.
///
/// It checks tags, lengths and brackets, and nothing else; `SortKeyDecoder` checks all.
struct SortKeyCursor {
    private let key: ByteView
    private(set) var offset: Int

    init(_ key: ByteView, at offset: Int = 0) {
        self.key = key
        self.offset = offset
    }

    /// Whether the innermost bracket ends here.
    var isAtEndTag: Bool { offset < key.count && key[offset] == SortKeyTag.end }

    /// Moves behind one whole value; false, with an undefined offset, if none is here.
    mutating func skipValue() -> Bool {
        var depth = 0
        repeat {
            guard offset < key.count else { return false }
            let tag = key[offset]
            offset += 1
            switch tag {
            case SortKeyTag.null, SortKeyTag.no, SortKeyTag.yes: break
            case SortKeyTag.number:
                guard key.count - offset >= 8 else { return false }
                offset += 8
            case SortKeyTag.string:
                guard skipZeroEnded(), skipZeroEnded() else { return false }
            case SortKeyTag.array, SortKeyTag.object: depth += 1
            case SortKeyTag.end where depth > 0: depth -= 1
            default: return false
            }
        } while depth > 0
        return true
    }

    private mutating func skipZeroEnded() -> Bool {
        guard let end = ZeroEscape.end(of: key, from: offset) else { return false }
        offset = end + 1
        return true
    }
}
