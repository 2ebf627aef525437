internal import Bytes
package import Vocabulary
package import Wire

/// One path of a sub-document operation.
package struct DocumentPart: Hashable, Sendable {
    package let operation: SubDocumentOperation
    package let flags: PathFlags
    package let path: [UInt8]
    /// Empty for lookups.
    package let value: [UInt8]

    package init(
        _ operation: SubDocumentOperation,
        _ path: String,
        value: String = "",
        flags: PathFlags = []
    ) {
        self.operation = operation
        self.flags = flags
        self.path = Array(path.utf8)
        self.value = Array(value.utf8)
    }
}

/// The answer to a lookup of parts of a document.
package struct PartsOfDocument: Hashable, Sendable {
    /// The status of a path, and its value, which is empty after a failure.
    package struct Part: Hashable, Sendable {
        package let status: UInt16
        package let value: [UInt8]
    }

    package let cas: CAS
    /// The document is a tombstone.
    package let isDeleted: Bool
    /// In the order of the request.
    package let parts: [Part]
}

/// Operations on parts of documents, with up to 16 paths.
///
/// Attributes, and requests for tombstones, need a client that was made with the features
/// `Handshake.attributes`; otherwise they fail with `unsupported`.
extension Client {
    /// Reads parts of a document; a path that fails is no failure of the operation.
    package func lookupIn(
        _ key: [UInt8],
        _ parts: [DocumentPart],
        flags: DocumentFlags = [],
        timeout: OperationTimeout = .usual,
        done: @escaping Handler<PartsOfDocument>
    ) {
        var request = Request(.subdocMultiLookup, key: key, isWrite: false)
        request.fill(parts, flags, expiry: 0)
        let count = parts.count
        perform(request, timeout, handler: done) { (reply) throws(ClientError) in
            try reply.parts(count)
        }
    }

    /// Applies all paths to a document, or none; `refused` if a path fails.
    ///
    /// An expiry of `never` keeps that of the document.
    package func mutateIn(
        _ key: [UInt8],
        _ parts: [DocumentPart],
        flags: DocumentFlags = [],
        options: WriteOptions = .plain,
        done: @escaping Handler<MutationResult>
    ) {
        var request = write(.subdocMultiMutation, key, options: options)
        request.fill(parts, flags, expiry: wire(options.expiry))
        perform(request, options.timeout, handler: done) { (reply) throws(ClientError) in
            try reply.changedParts()
        }
    }
}

extension Request {
    /// Encodes the paths as the value, and the options as extras.
    fileprivate mutating func fill(
        _ parts: [DocumentPart],
        _ flags: DocumentFlags,
        expiry: UInt32
    ) {
        value = Client.extras { writer in
            for part in parts {
                writer.append(part.operation.rawValue)
                writer.append(part.flags.rawValue)
                writer.append(bigEndian: UInt16(part.path.count))
                if isWrite { writer.append(bigEndian: UInt32(part.value.count)) }
                writer.append(part.path)
                writer.append(part.value)
            }
        }
        extras = Client.extras { writer in
            if expiry != 0 { writer.append(bigEndian: expiry) }
            if !flags.isEmpty { writer.append(flags.rawValue) }
        }
        if parts.contains(where: { $0.flags.contains(.attribute) }) { features.insert(.xattr) }
        if flags.contains(.createsAsDeleted) { features.insert(.createAsDeleted) }
    }
}

extension Operation.Reply {
    /// Decodes the answer to a lookup of `count` paths: status 2, length 4, value of each.
    ///
    /// - Throws: `refused` if it is malformed.
    fileprivate func parts(_ count: Int) throws(ClientError) -> PartsOfDocument {
        let parts: [PartsOfDocument.Part]? = answer.value.withUnsafeBytes { buffer in
            var reader = ByteReader(ByteView(buffer))
            var parts: [PartsOfDocument.Part] = []
            for _ in 0..<count {
                guard let status = reader.bigEndian(UInt16.self),
                    let length = reader.bigEndian(UInt32.self),
                    let value = reader.bytes(Int(length))
                else { return nil }
                parts.append(PartsOfDocument.Part(status: status, value: value.bytes))
            }
            return parts
        }
        guard let parts else { throw refused("the answer to a lookup is malformed") }
        return PartsOfDocument(cas: answer.cas, isDeleted: isOfTombstone, parts: parts)
    }

    /// - Throws: `refused` if a path failed, so that nothing was changed.
    fileprivate func changedParts() throws(ClientError) -> MutationResult {
        switch Status(rawValue: answer.status) {
        case .success, .subdocSuccessDeleted: return mutation
        default:
            let failed = answer.value.first.map { "path \($0)" } ?? "a path"
            throw refused("\(failed) failed, so that nothing was changed")
        }
    }

    private var isOfTombstone: Bool {
        let status = Status(rawValue: answer.status)
        return status == .subdocSuccessDeleted || status == .subdocMultiPathFailureDeleted
    }

    private func refused(_ text: String) -> ClientError {
        var error = refusal(text)
        error.status = answer.status
        return error
    }
}
