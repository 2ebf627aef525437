import Bytes
import JSON
import SubDocument

extension [UInt8] {
    func withView<Value>(_ body: (ByteView) throws -> Value) rethrows -> Value {
        try withUnsafeBytes { try body(ByteView($0)) }
    }
}

/// What a lookup or an edit returned, for tables.
enum Outcome: Equatable {
    /// The text of a value, a count, or the new document.
    case text(String)
    case failure(PathFailure)
}

extension Outcome: ExpressibleByStringLiteral {
    init(stringLiteral text: String) { self = .text(text) }
}

/// Parses `path` and calls `body` with it; both texts are in memory of exactly their size.
func withPath(
    _ path: String,
    isAttribute: Bool = false,
    _ body: (DocumentPath) -> Outcome
) -> Outcome {
    Array(path.utf8).withView { text in
        do throws(PathFailure) {
            return body(try DocumentPath(text, isAttribute: isAttribute))
        } catch {
            return .failure(error)
        }
    }
}

/// The value at `path` in `document`.
func get(_ path: String, _ document: String) -> Outcome {
    withPath(path) { path in
        Array(document.utf8).withView { document in
            switch PathLookup.value(at: path, in: document) {
            case .success(let value): .text(value.text)
            case .failure(let failure): .failure(failure)
            }
        }
    }
}

func count(_ path: String, _ document: String) -> Outcome {
    withPath(path) { path in
        Array(document.utf8).withView { document in
            switch PathLookup.count(at: path, in: document) {
            case .success(let count): .text(String(count))
            case .failure(let failure): .failure(failure)
            }
        }
    }
}

/// An edit with all its arguments.
struct Edit {
    let operation: EditOperation
    let path: String
    var value: String = ""
    var makesParents = false

    init(
        _ operation: EditOperation,
        _ path: String,
        _ value: String = "",
        makesParents: Bool = false
    ) {
        self.operation = operation
        self.path = path
        self.value = value
        self.makesParents = makesParents
    }

    /// Applies the edit to `document`, behind other bytes in the writer.
    func apply(
        to document: [UInt8],
        _ onSuccess: (EditResult, [UInt8]) -> Void = { _, _ in }
    ) -> Outcome {
        withPath(path) { path in
            let writer = ByteWriter()
            writer.append("before")
            let result = document.withView { document in
                Array(value.utf8).withView { value in
                    PathEdit.apply(
                        operation,
                        at: path,
                        value: value,
                        makesParents: makesParents,
                        to: document,
                        into: writer
                    )
                }
            }
            switch result {
            case .success(let result):
                let written = Array(writer.bytes.dropFirst(6))
                onSuccess(result, written)
                return .text(String(decoding: written, as: UTF8.self))
            case .failure(let failure):
                precondition(writer.count == 6, "a failed edit writes nothing")
                return .failure(failure)
            }
        }
    }

    func apply(to document: String) -> Outcome { apply(to: Array(document.utf8)) }
}

/// A document of `depth` arrays, with `leaf` inside.
func nested(_ depth: Int, _ leaf: String = "") -> String {
    String(repeating: "[", count: depth) + leaf + String(repeating: "]", count: depth)
}

/// A path of `count` indexes of first elements.
func firstIndexes(_ count: Int) -> String { String(repeating: "[0]", count: count) }
