package import Bytes
internal import JSON

/// Changes a JSON document at one path, and copies all other bytes unchanged.
///
/// New members and elements are written without blanks; a removed one takes along its comma and the
/// blanks up to the next element, or from the one before.
///
/// - An edit of a JSON document results in a JSON document.
/// - A document may be any bytes: what `PathWalk` reads is checked, the rest is only copied.
/// - Failures come in a fixed order: the path's form, the value, the document.
package struct PathEdit {
    let operation: EditOperation
    let path: DocumentPath
    /// The value without the blanks around it; a counter's new number.
    let value: ByteView
    let makesParents: Bool
    let document: ByteView
    let output: ByteWriter

    /// Applies `operation` and appends the new document to `writer`; after a failure, the writer is as
    /// it was.
    ///
    /// - `delete` ignores the value.
    /// - If `makesParents` is set, missing objects on the path are created, and a missing array of
    ///   `pushLast`, `pushFirst` and `addUnique`. `delete`, `replace` and `insert` ignore it.
    /// - The document and the value are not in the memory of `writer`.
    package static func apply(
        _ operation: EditOperation,
        at path: DocumentPath,
        value: ByteView,
        makesParents: Bool,
        to document: ByteView,
        into writer: ByteWriter
    ) -> Result<EditResult, PathFailure> {
        if let failure = checkForm(of: path, operation) { return .failure(failure) }
        if operation == .counter {
            return CounterEdit(path: path, makesParents: makesParents, document: document)
                .apply(delta: value, to: writer)
        }
        let checked: ByteView
        switch check(value, for: operation, at: path) {
        case .success(let value): checked = value
        case .failure(let failure): return .failure(failure)
        }
        let edit = PathEdit(
            operation: operation,
            path: path,
            value: checked,
            makesParents: makesParents,
            document: document,
            output: writer
        )
        return edit.run().map { EditResult(number: nil, written: $0.isEmpty ? nil : $0) }
    }

    /// The document that a first edit at `path` begins with if there is none.
    package static func newRoot(for operation: EditOperation, at path: DocumentPath) -> StaticString
    {
        path.isRoot && operation.isPush || path.startsInArray ? "[]" : "{}"
    }

    /// Why `operation` does not allow such a path in any document; nil if it does.
    private static func checkForm(
        of path: DocumentPath,
        _ operation: EditOperation
    ) -> PathFailure? {
        guard !path.isRoot else { return operation.allowsRoot ? nil : .invalidArguments }
        switch (operation, path[path.count - 1]) {
        case (.dictAdd, .key), (.dictUpsert, .key), (.insert, .index): return nil
        case (.dictAdd, _), (.dictUpsert, _), (.insert, _): return .invalidPath
        default: return nil
        }
    }

    private static func check(
        _ value: ByteView,
        for operation: EditOperation,
        at path: DocumentPath
    ) -> Result<ByteView, PathFailure> {
        let depthMax = DocumentPath.depthMax - path.count
        return switch operation {
        case .dictAdd, .dictUpsert, .replace: ValueCheck.check(value, .single, depthMax: depthMax)
        case .insert: ValueCheck.check(value, .list, depthMax: depthMax)
        case .pushLast, .pushFirst: ValueCheck.check(value, .list, depthMax: depthMax - 1)
        case .addUnique: ValueCheck.check(value, .scalar, depthMax: depthMax - 1)
        case .delete, .counter: .success(.empty)
        }
    }

    // MARK: Edits

    /// Returns where the value is in the new document; an empty range if there is none.
    private func run() -> Result<Range<Int>, PathFailure> {
        switch operation {
        case .insert: return insert()
        case .pushLast, .pushFirst, .addUnique: return push()
        case .dictAdd, .dictUpsert, .delete, .replace, .counter: break
        }
        var walk = PathWalk(document)
        switch walk.find(path) {
        case .found: return change(&walk)
        case .missing:
            guard operation == .dictAdd || operation == .dictUpsert else {
                return .failure(.notFound)
            }
            return addMember(walk)
        case .failed(let failure): return .failure(failure)
        }
    }

    /// Deletes or replaces the value at the cursor.
    private func change(_ walk: inout PathWalk) -> Result<Range<Int>, PathFailure> {
        let start = walk.scanner.offset
        guard walk.consumeValue() != nil else { return .failure(walk.scanner.failure) }
        switch operation {
        case .dictAdd: return .failure(.exists)
        case .delete:
            let editor = EditWriter(document, output, additional: 0)
            editor.remove(removal(&walk))
            return .success(0..<0)
        default:
            let editor = EditWriter(document, output, additional: value.count)
            return .success(editor.replace(start..<walk.scanner.offset, by: value))
        }
    }

    /// The bytes of the element that ends at the cursor, with one comma.
    private func removal(_ walk: inout PathWalk) -> Range<Int> {
        if let previousEnd = walk.previousEnd { return previousEnd..<walk.scanner.offset }
        walk.scanner.skipBlank()
        guard walk.scanner.consume(",") else {
            // The only element: nothing stays between the brackets.
            return walk.containerStart + 1..<walk.scanner.offset
        }
        walk.scanner.skipBlank()
        return walk.elementStart..<walk.scanner.offset
    }

    /// Adds the member, or the array of a push, that the walk has not found.
    func addMember(_ walk: PathWalk) -> Result<Range<Int>, PathFailure> {
        let missing = path.count - walk.matched
        guard missing == 1 && !operation.isPush || makesParents else { return .failure(.notFound) }
        for place in walk.matched..<path.count {
            guard case .key = path[place] else { return .failure(.notFound) }
        }
        let brackets = 8 * missing + 8
        let editor = EditWriter(
            document,
            output,
            additional: path.text.count + brackets + value.count
        )
        editor.copy(upTo: walk.insertionOffset)
        if walk.elementCount > 0 { editor.append(",") }
        for place in walk.matched..<path.count {
            guard case .key(let key) = path[place] else { continue }
            if place > walk.matched { editor.append("{") }
            editor.append(key)
        }
        if operation.isPush { editor.append("[") }
        let written = editor.append(value)
        if operation.isPush { editor.append("]") }
        for _ in 1..<max(missing, 1) { editor.append("}") }
        editor.copy(from: walk.insertionOffset)
        return .success(written)
    }
}

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
