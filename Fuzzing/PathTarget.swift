import Bytes
import JSON
import SubDocument
import TestWorld

/// Paths into documents, with lookups and edits: any texts are handled without a crash.
///
/// The first line is a path, the second one a value, and the rest a document.
///
/// - What is found lies in the document. If the document is JSON, the value is, too.
/// - An edit of JSON results in JSON, which has the written value at the path. It copies the bytes in
///   front of the value, and those behind it.
/// - A failed edit writes nothing.
final class PathTarget {
    private let output = ByteWriter()

    func run(_ view: ByteView) {
        var rest = view
        let text = PathTarget.line(&rest)
        let value = PathTarget.line(&rest)
        checkAttributeKey(text)
        guard let path = try? DocumentPath(text, isAttribute: false) else { return }
        require(path.count <= DocumentPath.depthMax, "a path of \(path.count) components")
        checkLookup(path, rest)
        for operation in EditOperation.allCases {
            for makesParents in [false, true] {
                checkEdit(operation, path, value, makesParents, rest)
            }
        }
    }

    /// The bytes before the next line feed; `rest` becomes what is behind it.
    private static func line(_ rest: inout ByteView) -> ByteView {
        let count = rest.buffer.firstIndex(of: UInt8(ascii: "\n")) ?? rest.count
        let line = rest.slice(0, count)
        rest = rest.dropFirst(min(count + 1, rest.count))
        return line
    }

    private func checkAttributeKey(_ text: ByteView) {
        guard let path = try? DocumentPath(text, isAttribute: true) else { return }
        let key = path.attributeKey
        require((1...15).contains(key.count), "an attribute's key of \(key.count) bytes")
        require(text.slice(0, key.count).equals(key), "the path does not begin with its key")
        require(path.withoutFirst.count == path.count - 1, "the rest has one component less")
    }

    private func checkLookup(_ path: DocumentPath, _ document: ByteView) {
        let isJSON = JSONGrammar.accepts(document)
        if case .success(let value) = PathLookup.value(at: path, in: document) {
            require(
                value.start >= document.start
                    && value.start + value.count <= document.start + document.count,
                "the value is not in the document"
            )
            require(!isJSON || JSONGrammar.accepts(value), "a part of JSON is no JSON")
            if case .failure = PathLookup.exists(at: path, in: document) {
                fatalError("a value exists")
            }
        }
        if case .success(let count) = PathLookup.count(at: path, in: document) {
            require(count >= 0 && count <= document.count, "\(count) elements")
        }
    }

    private func checkEdit(
        _ operation: EditOperation,
        _ path: DocumentPath,
        _ value: ByteView,
        _ makesParents: Bool,
        _ document: ByteView
    ) {
        output.removeAll()
        let result = PathEdit.apply(
            operation,
            at: path,
            value: value,
            makesParents: makesParents,
            to: document,
            into: output
        )
        guard case .success(let edit) = result else {
            require(output.count == 0, "a failed edit wrote \(output.count) bytes")
            return
        }
        guard JSONGrammar.accepts(document) else { return }
        require(JSONGrammar.accepts(output.view), "\(operation) made no JSON: \(output.view.text)")
        guard let range = edit.written else {
            require(operation == .delete, "\(operation) wrote no value")
            return
        }
        checkCopies(document, range)
        let written = output.view.slice(range.lowerBound, range.count)
        switch operation {
        case .dictAdd, .dictUpsert, .replace, .counter:
            guard case .success(let found) = PathLookup.value(at: path, in: output.view) else {
                fatalError("\(operation): the written value is not found")
            }
            require(found.equals(written), "\(operation): another value is found")
        case .delete, .pushLast, .pushFirst, .insert, .addUnique: break
        }
        if let number = edit.number {
            require(written.text == String(number), "the counter wrote \(written.text)")
        }
    }

    /// In front of the written value, the document is unchanged up to a comma, keys and brackets that
    /// were added.
    ///
    /// What is behind the value ends as the document does.
    private func checkCopies(_ document: ByteView, _ written: Range<Int>) {
        let new = output.view
        var head = 0
        while head < min(document.count, new.count), document[head] == new[head] { head += 1 }
        var tail = 0
        while tail < min(document.count, new.count),
            document[document.count - 1 - tail] == new[new.count - 1 - tail]
        {
            tail += 1
        }
        let isReplaced = head < document.count - tail
        // Bytes that differ belong to the value, or to what encloses a new one.
        require(
            isReplaced ? head >= written.lowerBound : head + tail >= document.count,
            "bytes in front of the value have changed"
        )
        require(
            !isReplaced || new.count - tail <= written.upperBound,
            "bytes behind the value have changed"
        )
    }
}
