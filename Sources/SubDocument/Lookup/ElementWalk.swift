internal import Bytes

/// The values of a container, one after the other.
struct ElementWalk {
    enum Step {
        /// The value of an element or a member.
        case element(ByteView)
        case end
        case failed(PathFailure)
    }

    private var scanner: DocumentScanner
    private let opening: UInt8
    private var isFirst = true

    /// Begins at a value of a document, without blanks around it.
    init(_ container: ByteView) {
        scanner = DocumentScanner(container)
        opening = scanner.peek
        scanner.offset = 1
    }

    var isContainer: Bool { opening == UInt8(ascii: "{") || isArray }

    var isArray: Bool { opening == UInt8(ascii: "[") }

    /// The next value, nested at most `depthMax` deep.
    mutating func next(depthMax: Int) -> Step {
        scanner.skipBlank()
        if consumeEnd() { return .end }
        if !isFirst {
            guard scanner.consume(",") else { return .failed(.documentNotJSON) }
            scanner.skipBlank()
        }
        isFirst = false
        if !isArray {
            guard scanner.consumeString() != nil else { return .failed(.documentNotJSON) }
            scanner.skipBlank()
            guard scanner.consume(":") else { return .failed(.documentNotJSON) }
            scanner.skipBlank()
        }
        let start = scanner.offset
        guard scanner.skipValue(depthMax: depthMax) else { return .failed(scanner.failure) }
        return .element(scanner.document.slice(start, scanner.offset - start))
    }

    private mutating func consumeEnd() -> Bool {
        isArray ? scanner.consume("]") : scanner.consume("}")
    }
}
