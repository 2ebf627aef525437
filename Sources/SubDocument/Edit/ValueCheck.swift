internal import Bytes
internal import JSON

/// Whether the value of an edit may be written into a document.
enum ValueCheck {
    enum Form {
        /// One value.
        case single
        /// One or more values, separated by commas.
        case list
        /// One string, number or literal.
        case scalar
    }

    /// The value without the blanks around it, or why it cannot be written.
    ///
    /// It may be nested `depthMax` deep, which is negative if the place itself is too deep.
    static func check(
        _ value: ByteView,
        _ form: Form,
        depthMax: Int
    ) -> Result<ByteView, PathFailure> {
        guard !value.isEmpty else { return .failure(.invalidArguments) }
        var scanner = DocumentScanner(value)
        scanner.skipBlank()
        let first = scanner.offset
        while true {
            let start = scanner.offset
            let isContainer = scanner.peek == UInt8(ascii: "{") || scanner.peek == UInt8(ascii: "[")
            guard form != .scalar || !isContainer else { return .failure(.cannotInsert) }
            guard scanner.skipValue(depthMax: depthMax) else {
                let isTooDeep = scanner.failure == .documentTooDeep
                return .failure(isTooDeep ? .valueTooDeep : .cannotInsert)
            }
            let end = scanner.offset
            guard JSONGrammar.accepts(value.slice(start, end - start)) else {
                return .failure(.cannotInsert)
            }
            scanner.skipBlank()
            if scanner.isAtEnd {
                return depthMax < 0
                    ? .failure(.valueTooDeep) : .success(value.slice(first, end - first))
            }
            guard form == .list, scanner.consume(",") else { return .failure(.cannotInsert) }
            scanner.skipBlank()
        }
    }
}
