internal import Bytes

/// Edits that put values into an array.
extension PathEdit {
    /// Inserts the values in front of the element that the path names, or behind the last one.
    func insert() -> Result<Range<Int>, PathFailure> {
        var walk = PathWalk(document)
        switch walk.find(path) {
        case .found:
            let start = walk.scanner.offset
            guard walk.consumeValue() != nil else { return .failure(walk.scanner.failure) }
            return .success(write(at: start, before: ",", after: ""))
        case .missing:
            guard case .index(let index) = path[path.count - 1], walk.matched == path.count - 1,
                index == walk.elementCount
            else { return .failure(.notFound) }
            let comma: StaticString = index == 0 ? "" : ","
            return .success(write(at: walk.insertionOffset, before: "", after: comma))
        case .failed(let failure): return .failure(failure)
        }
    }

    /// Puts the values at an end of the array at the path.
    func push() -> Result<Range<Int>, PathFailure> {
        var walk = PathWalk(document)
        switch walk.find(path) {
        case .found: break
        case .missing: return addMember(walk)
        case .failed(let failure): return .failure(failure)
        }
        let start = walk.scanner.offset
        guard let array = walk.consumeValue() else { return .failure(walk.scanner.failure) }
        guard array[0] == UInt8(ascii: "[") else { return .failure(.mismatch) }
        if operation == .addUnique, let failure = checkUnique(in: array) {
            return .failure(failure)
        }
        // Outside of strings, what precedes the closing bracket ends the last element.
        var end = array.count - 1
        while DocumentScanner.isBlank(array[end - 1]) { end -= 1 }
        let isEmpty = end == 1
        if !isEmpty, array[end - 1] == UInt8(ascii: ",") { return .failure(.documentNotJSON) }
        if operation == .pushFirst {
            return .success(write(at: start + 1, before: isEmpty ? "" : ",", after: ""))
        }
        return .success(write(at: start + end, before: "", after: isEmpty ? "" : ","))
    }

    /// Writes the document with the value at `offset`: between `after` and `before`, which separate it
    /// from its neighbours.
    private func write(
        at offset: Int,
        before: StaticString,
        after: StaticString
    ) -> Range<Int> {
        let editor = EditWriter(document, output, additional: value.count + 1)
        editor.copy(upTo: offset)
        editor.append(after)
        let written = editor.append(value)
        editor.append(before)
        editor.copy(from: offset)
        return written
    }

    /// Why the value cannot be added to a set; nil if it can.
    ///
    /// The elements are compared in their order, up to the first container: strings by what they
    /// decode to, numbers by their text, as Couchbase Server does.
    private func checkUnique(in array: ByteView) -> PathFailure? {
        var elements = ElementWalk(array)
        while true {
            switch elements.next(depthMax: DocumentPath.depthMax - path.count - 1) {
            case .element(let element):
                if element[0] == UInt8(ascii: "{") || element[0] == UInt8(ascii: "[") {
                    return .mismatch
                }
                guard let isEqual = isEqual(element) else { return .documentNotJSON }
                if isEqual { return .exists }
            case .end: return nil
            case .failed(let failure): return failure
            }
        }
    }

    /// Whether a scalar of the document is the value; nil if it has an invalid escape.
    private func isEqual(_ element: ByteView) -> Bool? {
        let quote = UInt8(ascii: "\"")
        guard element[0] == quote, value[0] == quote else { return element.equals(value) }
        return StringContent.areEqual(
            StringContent(element.slice(1, element.count - 2), dropsBackticks: false),
            StringContent(value.slice(1, value.count - 2), dropsBackticks: false)
        )
    }
}
