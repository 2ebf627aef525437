package import Bytes

/// A path into a JSON document: object keys and array indexes, from the root to a value.
///
/// The text is `key.key[0].key[-1]`. A key that contains `.`, `[`, `]` or a backtick is enclosed in
/// backticks, with the backticks inside doubled. The rest of a key is written as in a JSON string, so
/// a quote needs a backslash; `\u` escapes are invalid, as in Couchbase Server.
///
/// - The path borrows its text.
/// - An empty text is the root.
/// - Parsing allocates nothing.
package struct DocumentPath {
    package static let bytesMax = 1_024
    /// The most components of a path, and the deepest nesting of a document.
    package static let depthMax = 32

    /// The whole text, also of a path without its first or last component.
    package let text: ByteView
    let pieces: InlineArray<32, PathPiece>
    let first: Int
    let end: Int

    /// Parses a path.
    ///
    /// The first component of an attribute's path is the attribute's key: 1 to 15 bytes, without
    /// backticks and backslashes.
    ///
    /// - Throws: `pathTooLong` if the text is longer than `bytesMax` or has more than `depthMax`
    ///   components; `invalidPath` if it is not a path; `invalidArguments` if an attribute's path is
    ///   empty.
    package init(_ text: ByteView, isAttribute: Bool) throws(PathFailure) {
        guard !isAttribute || !text.isEmpty else { throw .invalidArguments }
        guard text.count <= DocumentPath.bytesMax else { throw .pathTooLong }
        var parser = PathParser(text)
        if let failure = parser.parse() { throw failure }
        if isAttribute, !parser.startsWithAttributeKey { throw .invalidPath }
        self.init(text: text, pieces: parser.pieces, first: 0, end: parser.count)
    }

    private init(text: ByteView, pieces: InlineArray<32, PathPiece>, first: Int, end: Int) {
        self.text = text
        self.pieces = pieces
        self.first = first
        self.end = end
    }

    /// The number of components.
    package var count: Int { end - first }

    /// Whether the path has no components, so that it names the whole document.
    package var isRoot: Bool { end == first }

    /// The key of the extended attribute that an attribute's path begins with; empty for the root.
    package var attributeKey: ByteView {
        guard !isRoot, case .key(let key) = self[0] else { return .empty }
        return key.content
    }

    /// The path without its first component: an attribute's path as one into the attribute's value.
    ///
    /// - Precondition: the path is not the root.
    package var withoutFirst: DocumentPath {
        precondition(!isRoot, "the root has no first component")
        return DocumentPath(text: text, pieces: pieces, first: first + 1, end: end)
    }

    /// The path of the container that the last component is applied to.
    ///
    /// - Precondition: the path is not the root.
    var parent: DocumentPath {
        precondition(!isRoot, "the root has no parent")
        return DocumentPath(text: text, pieces: pieces, first: first, end: end - 1)
    }

    /// Whether the document that the path fits is an array.
    package var startsInArray: Bool {
        guard !isRoot else { return false }
        if case .key = self[0] { return false }
        return true
    }

    subscript(place: Int) -> PathComponent {
        precondition(place >= 0 && place < count, "component \(place) is outside the path")
        let piece = pieces[first + place]
        return switch piece.kind {
        case .key, .escapedKey:
            .key(
                PathKey(
                    content: text.slice(Int(piece.offset), Int(piece.length)),
                    isPlain: piece.kind == .key
                )
            )
        case .index: .index(Int(piece.index))
        case .last: .last
        }
    }
}

/// One step of a path.
enum PathComponent {
    case key(PathKey)
    /// The place of an element, from 0 on.
    case index(Int)
    /// The last element of an array: `[-1]`.
    case last
}

/// A parsed component in 12 bytes, for an array without allocation.
struct PathPiece {
    enum Kind: UInt8 {
        /// A key whose text is its content.
        case key
        /// A key with backticks or escapes in its text.
        case escapedKey
        case index
        case last
    }

    var kind: Kind = .key
    var offset: UInt16 = 0
    var length: UInt16 = 0
    var index: UInt32 = 0
}
