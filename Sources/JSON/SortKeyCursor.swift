internal import Bytes

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
