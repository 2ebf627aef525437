internal import Bytes

/// Follows a path through a document, and keeps what an edit at its end needs.
///
/// - Of equal keys in an object, the first one counts.
/// - On the way, everything is checked but the inside of skipped values (`DocumentScanner`). The walk
///   reads nothing behind the value at the path.
struct PathWalk {
    enum Outcome {
        /// The cursor is at the value.
        case found
        /// The innermost container on the path lacks the component `matched`.
        case missing
        case failed(PathFailure)
    }

    var scanner: DocumentScanner
    /// The components that were found.
    private(set) var matched = 0
    /// The key's quote if the value is in an object, otherwise the start of the value.
    private(set) var elementStart = 0
    /// The offset behind the preceding element of the container; nil if there is none.
    private(set) var previousEnd: Int?
    /// The opening bracket of the innermost container that the walk entered.
    private(set) var containerStart = 0
    /// The place of a missing component: the offset behind the last element, or behind the bracket.
    private(set) var insertionOffset = 0
    /// The elements of the container, if the component is missing.
    private(set) var elementCount = 0

    init(_ document: ByteView) {
        scanner = DocumentScanner(document)
    }

    private var document: ByteView { scanner.document }

    /// Moves to the value at `path`.
    mutating func find(_ path: DocumentPath) -> Outcome {
        scanner.skipBlank()
        elementStart = scanner.offset
        while matched < path.count {
            let outcome = enter(path[matched])
            guard case .found = outcome else { return outcome }
            matched += 1
        }
        return .found
    }

    /// Skips the value at the cursor and returns its bytes; nil if the document is malformed.
    @inline(__always)
    mutating func consumeValue() -> ByteView? {
        let start = scanner.offset
        guard scanner.skipValue(depthMax: DocumentPath.depthMax - matched) else { return nil }
        let value = document.slice(start, scanner.offset - start)
        return isDelimited ? value : nil
    }

    /// Whether the document may have what follows the value that ends at the cursor.
    private var isDelimited: Bool {
        var rest = scanner
        rest.skipBlank()
        guard matched > 0 else { return rest.isAtEnd }
        let bracket = document[containerStart] == UInt8(ascii: "{") ? UInt8(ascii: "}") : 0x5d
        return rest.peek == UInt8(ascii: ",") || rest.peek == bracket
    }

    /// Moves to the element that `component` names in the container at the cursor.
    private mutating func enter(_ component: PathComponent) -> Outcome {
        containerStart = scanner.offset
        previousEnd = nil
        elementCount = 0
        switch (scanner.peek, component) {
        case (UInt8(ascii: "{"), .key(let key)):
            scanner.offset += 1
            return findMember(key)
        case (UInt8(ascii: "["), .index(let index)):
            scanner.offset += 1
            return findElement(index)
        case (UInt8(ascii: "["), .last):
            scanner.offset += 1
            return findLast()
        case (UInt8(ascii: "{"), _), (UInt8(ascii: "["), _): return .failed(.mismatch)
        default:
            // A scalar, if it is anything.
            guard scanner.skipValue(depthMax: 0) else { return .failed(.documentNotJSON) }
            return .failed(.mismatch)
        }
    }

    private mutating func findMember(_ key: PathKey) -> Outcome {
        insertionOffset = scanner.offset
        scanner.skipBlank()
        if scanner.consume("}") { return .missing }
        while true {
            elementStart = scanner.offset
            guard let name = scanner.consumeString() else { return .failed(.documentNotJSON) }
            scanner.skipBlank()
            guard scanner.consume(":"),
                let isMatch = key.matches(name.content, hasEscapes: name.hasEscapes)
            else { return .failed(.documentNotJSON) }
            scanner.skipBlank()
            if isMatch { return .found }
            guard skipElement() else { return .failed(scanner.failure) }
            guard scanner.consume(",") else {
                return scanner.consume("}") ? .missing : .failed(.documentNotJSON)
            }
            scanner.skipBlank()
        }
    }

    private mutating func findElement(_ index: Int) -> Outcome {
        insertionOffset = scanner.offset
        scanner.skipBlank()
        if scanner.consume("]") { return .missing }
        while true {
            elementStart = scanner.offset
            if elementCount == index { return .found }
            guard skipElement() else { return .failed(scanner.failure) }
            guard scanner.consume(",") else {
                return scanner.consume("]") ? .missing : .failed(.documentNotJSON)
            }
            scanner.skipBlank()
        }
    }

    private mutating func findLast() -> Outcome {
        insertionOffset = scanner.offset
        scanner.skipBlank()
        if scanner.consume("]") { return .missing }
        while true {
            elementStart = scanner.offset
            let before = previousEnd
            guard skipElement() else { return .failed(scanner.failure) }
            if scanner.consume(",") {
                scanner.skipBlank()
            } else if scanner.consume("]") {
                // Back to the element that turned out to be the last one.
                scanner.offset = elementStart
                previousEnd = before
                return .found
            } else {
                return .failed(.documentNotJSON)
            }
        }
    }

    /// Skips an element of the container, and the blanks behind it.
    @inline(__always)
    private mutating func skipElement() -> Bool {
        guard scanner.skipValue(depthMax: DocumentPath.depthMax - matched - 1) else { return false }
        previousEnd = scanner.offset
        insertionOffset = scanner.offset
        elementCount += 1
        scanner.skipBlank()
        return true
    }
}
