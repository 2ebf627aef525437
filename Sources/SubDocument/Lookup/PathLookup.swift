package import Bytes

/// Reads parts of a JSON document by path.
///
/// - A document may be any bytes. What a lookup has to read is checked as far as `PathWalk` says;
///   bytes behind the value at the path are not read.
/// - An empty path is invalid where Couchbase Server refuses it. A path that became empty by
///   `withoutFirst` is the whole document: an attribute's value.
package enum PathLookup {
    /// The value at `path`: a slice of the document without the blanks around it.
    package static func value(
        at path: DocumentPath,
        in document: ByteView
    ) -> Result<ByteView, PathFailure> {
        guard !path.text.isEmpty else { return .failure(.invalidArguments) }
        return anyValue(at: path, in: document)
    }

    /// Whether the document has a value at `path`: success, or the failure of the path.
    package static func exists(
        at path: DocumentPath,
        in document: ByteView
    ) -> Result<Void, PathFailure> {
        value(at: path, in: document).map { _ in }
    }

    /// The number of elements or members of the container at `path`, which may be the root.
    package static func count(
        at path: DocumentPath,
        in document: ByteView
    ) -> Result<Int, PathFailure> {
        let container: ByteView
        switch anyValue(at: path, in: document) {
        case .success(let value): container = value
        case .failure(let failure): return .failure(failure)
        }
        var elements = ElementWalk(container)
        guard elements.isContainer else { return .failure(.mismatch) }
        var count = 0
        while true {
            switch elements.next(depthMax: DocumentPath.depthMax - path.count - 1) {
            case .element: count += 1
            case .end: return .success(count)
            case .failed(let failure): return .failure(failure)
            }
        }
    }

    /// The value at `path`, also for an empty path.
    static func anyValue(
        at path: DocumentPath,
        in document: ByteView
    ) -> Result<ByteView, PathFailure> {
        var walk = PathWalk(document)
        switch walk.find(path) {
        case .found:
            guard let value = walk.consumeValue() else { return .failure(walk.scanner.failure) }
            return .success(value)
        case .missing: return .failure(.notFound)
        case .failed(let failure): return .failure(failure)
        }
    }
}
