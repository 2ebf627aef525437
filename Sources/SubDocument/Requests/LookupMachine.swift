package import Bytes
package import Vocabulary
package import Wire

/// Reads the paths of a lookup in one version of a document, and writes the answer's value.
///
/// A path that fails does not end the lookup: the answer has its status, and the results of all others.
package struct LookupMachine {
    private let request: SubDocumentRequest
    private let version: DocumentView
    private let context: MacroContext
    private let readsSystemAttributes: Bool
    private let output: ByteWriter
    private let limit: Int

    /// Executes a lookup.
    ///
    /// - Parameters:
    ///   - request: A request that `RequestCheck` accepts.
    ///   - version: The version.
    ///   - context: The values of virtual attributes that are not the version's.
    ///   - readsSystemAttributes: Whether the client may read attributes that begin with `_`. If not,
    ///     their paths fail, and the list of attributes does not have them.
    ///   - output: Gets the answer's value, behind its content.
    ///   - valueBytesMax: The bound of the answer's value.
    /// - Returns: The answer's status. `tooBig` appends nothing.
    package static func run(
        _ request: SubDocumentRequest,
        on version: DocumentView,
        context: MacroContext,
        readsSystemAttributes: Bool,
        to output: ByteWriter,
        valueBytesMax: Int = Limits.frameBytesMax
    ) -> Status {
        if request.documentFlags.contains(.revives), !version.meta.isDeleted {
            return .subdocCanOnlyReviveDeleted
        }
        let machine = LookupMachine(
            request: request,
            version: version,
            context: context,
            readsSystemAttributes: readsSystemAttributes,
            output: output,
            limit: output.count + valueBytesMax
        )
        return request.form == .single ? machine.runSingle() : machine.runMulti()
    }

    /// How many copies of the whole body an answer has.
    package static func documentCopies(_ request: SubDocumentRequest) -> Int {
        request.specs.reduce(0) { $1.operation == .getDocument ? $0 + 1 : $0 }
    }

    /// Whether a lookup reads much of a document, so that a large one should not be read under a lock.
    ///
    /// The whole body is only copied, once: further copies count as reading much.
    package static func scans(_ request: SubDocumentRequest, _ version: DocumentView) -> Bool {
        if documentCopies(request) > 1 { return true }
        for spec in request.specs where spec.operation != .getDocument {
            guard spec.flags.contains(.attribute) else { return true }
            if VirtualAttribute.needsChecksum(spec.path) { return true }
        }
        return version.value.count - version.body.count > Limits.lockedTransformBytesMax
    }

    private func runSingle() -> Status {
        var status = Status.success
        for spec in request.specs {
            status = withResult(of: spec) { status, value in
                guard status == .success else { return status }
                guard fits(value.count) else { return .tooBig }
                output.append(value)
                return .success
            }
        }
        // As in Couchbase Server, which reads with this flag as if the document were revived.
        let isDeleted = version.meta.isDeleted && !request.documentFlags.contains(.revives)
        return status == .success && isDeleted ? .subdocSuccessDeleted : status
    }

    private func runMulti() -> Status {
        let start = output.count
        var hasFailed = false
        for spec in request.specs {
            let isWritten = withResult(of: spec) { status, value in
                if status != .success { hasFailed = true }
                guard fits(value.count + SubDocumentEncoder.lookupHeaderBytes) else { return false }
                SubDocumentEncoder.appendLookup(status, value, to: output)
                return true
            }
            guard isWritten else {
                output.truncate(to: start)
                return .tooBig
            }
        }
        switch (hasFailed, version.meta.isDeleted) {
        case (false, false): return .success
        case (false, true): return .subdocSuccessDeleted
        case (true, false): return .subdocMultiPathFailure
        case (true, true): return .subdocMultiPathFailureDeleted
        }
    }

    private func fits(_ count: Int) -> Bool { output.count + count <= limit }

    // MARK: One path

    /// Calls `body` with the status of a path and its value, which is empty without success.
    private func withResult<Result>(
        of spec: SubDocumentSpec,
        _ body: (Status, ByteView) -> Result
    ) -> Result {
        guard spec.operation != .getDocument else {
            // Couchbase Server has no body of no bytes either.
            return version.body.isEmpty
                ? body(.subdocPathNotFound, .empty) : body(.success, version.body)
        }
        let isAttribute = spec.flags.contains(.attribute)
        guard readsSystemAttributes || !spec.namesSystemAttribute else {
            return body(.accessDenied, .empty)
        }
        let path: DocumentPath
        do throws(PathFailure) {
            path = try DocumentPath(spec.path, isAttribute: isAttribute)
        } catch {
            return body(Status(error), .empty)
        }
        guard isAttribute else {
            guard version.isJSON else { return body(.subdocDocumentNotJSON, .empty) }
            return withResult(spec, path, in: version.body, body: body)
        }
        let key = path.attributeKey
        if let virtual = VirtualAttribute(key) {
            let needsChecksum = VirtualAttribute.needsChecksum(spec.path)
            let document = virtual.value(
                of: version,
                in: context,
                withChecksum: needsChecksum,
                listsSystemAttributes: readsSystemAttributes
            )
            return document.withUnsafeBytes {
                withResult(spec, path.withoutFirst, in: ByteView($0), body: body)
            }
        }
        if key.buffer.first == UInt8(ascii: "$") { return body(.subdocXattrUnknownVirtual, .empty) }
        guard let value = version.attributes?.value(of: key) else {
            return body(.subdocPathNotFound, .empty)
        }
        return withResult(spec, path.withoutFirst, in: value, body: body)
    }

    private func withResult<Result>(
        _ spec: SubDocumentSpec,
        _ path: DocumentPath,
        in document: ByteView,
        body: (Status, ByteView) -> Result
    ) -> Result {
        switch spec.operation {
        case .exists:
            switch PathLookup.exists(at: path, in: document) {
            case .success: return body(.success, .empty)
            case .failure(let failure): return body(Status(failure), .empty)
            }
        case .getCount:
            switch PathLookup.count(at: path, in: document) {
            case .success(let count):
                return String(count).withView { body(.success, $0) }
            case .failure(let failure): return body(Status(failure), .empty)
            }
        default:
            switch PathLookup.value(at: path, in: document) {
            case .success(let value) where spec.flags.contains(.binary):
                guard let bytes = BinaryValue.decode(value) else {
                    return body(.subdocFieldNotBinaryValue, .empty)
                }
                return bytes.withUnsafeBytes { body(.success, ByteView($0)) }
            case .success(let value): return body(.success, value)
            case .failure(let failure): return body(Status(failure), .empty)
            }
        }
    }
}

extension Status {
    /// The status of a path that failed.
    init(_ failure: PathFailure) {
        guard let status = Status(rawValue: failure.rawValue) else {
            preconditionFailure("each failure of a path is a status")
        }
        self = status
    }
}
