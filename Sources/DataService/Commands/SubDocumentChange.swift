internal import Bytes
internal import SubDocument
internal import Vocabulary
internal import Wire

/// The answer of a sub-document command while another lane or other nodes complete it.
struct SubDocumentAnswer: Sendable {
    var status = Status.internalError
    var value: [UInt8] = []
    /// The request reads a replica, so the answer needs no lease.
    var isOfReplica = false
}

/// How a sub-document command that waited has ended.
enum SubDocumentEnd: Sendable {
    /// The answer is valid if the document was found, written or left unchanged.
    case ended(DocumentOutcome, SubDocumentAnswer)
    /// With what the write waited for last.
    case durable(SyncWriteOutcome, SubDocumentAnswer, CommandPhase)
}

/// The transform of one mutation: from a version to its successor, and to the answer.
struct SubDocumentChange {
    private let input: MutationMachine.Input
    private let preservesExpiry: Bool

    init(_ input: MutationMachine.Input, preservesExpiry: Bool) {
        self.input = input
        self.preservesExpiry = preservesExpiry
    }

    /// Writes the successor of `view` to `writer` and the answer's value to `results`.
    ///
    /// - Returns: The change, which is `keep` if a path failed, and the answer's status.
    func apply(
        to view: DocumentView?,
        _ writer: ByteWriter,
        _ results: ByteWriter
    ) -> (change: DocumentChange, status: Status) {
        results.removeAll()
        switch MutationMachine.run(input, on: view, to: writer, results: results) {
        case .refused(let status):
            results.removeAll()
            return (.keep, status)
        case .failed(let index, let status):
            results.removeAll()
            guard input.request.form == .multi else { return (.keep, status) }
            SubDocumentEncoder.appendFailure(index: index, status, to: results)
            // Of a tombstone too: 0xd3 is a status of lookups.
            return (.keep, .subdocMultiPathFailure)
        case .changed(let change):
            let flags = input.request.documentFlags
            let isDeleted = MutationMachine.concernsTombstone(flags, view)
            return (
                .store(fields(of: change)),
                isDeleted ? .subdocSuccessDeleted : .success
            )
        }
    }

    /// The fields that are stored with the successor's bytes.
    private func fields(of change: MutationMachine.Change) -> DocumentChange.Fields {
        var fields = DocumentChange.Fields(
            flags: input.request.userFlags,
            expiry: input.request.expiry,
            datatype: change.datatype,
            isDeleted: change.isDeleted,
            attributes: .replace
        )
        fields.macros = change.patches
        fields.preservesExpiry = preservesExpiry
        return fields
    }
}

/// A sub-document request that owns its frame, for another lane.
struct OwnedRequest: Sendable {
    private let frame: [UInt8]
    let key: [UInt8]
    private let jsonBodies: UInt16
    private let cas: CAS
    private let preservesExpiry: Bool
    /// The client's state when the request was accepted.
    private let privileges: Privileges

    init(
        _ frame: Frame,
        _ privileges: Privileges,
        jsonBodies: UInt16 = 0,
        preservesExpiry: Bool = false
    ) {
        self.privileges = privileges
        self.frame = frame.whole.bytes
        key = frame.key.bytes
        self.jsonBodies = jsonBodies
        cas = frame.cas
        self.preservesExpiry = preservesExpiry
    }

    /// Applies the mutation to a version.
    func apply(
        to view: DocumentView?,
        _ writer: ByteWriter,
        _ context: MacroContext
    ) -> (DocumentChange, SubDocumentAnswer) {
        withRequest { request in
            let input = MutationMachine.Input(
                request,
                context: context,
                jsonBodies: jsonBodies,
                writesSystemAttributes: privileges.contains(.systemXattrWrite)
            )
            let change = SubDocumentChange(input, preservesExpiry: preservesExpiry)
            let results = ByteWriter(capacity: 64)
            let (made, status) = change.apply(to: view, writer, results)
            return (made, SubDocumentAnswer(status: status, value: results.bytes))
        }
    }

    /// Executes the lookup on a copy of a version.
    func lookUp(_ copy: DocumentCopy, _ context: MacroContext) -> SubDocumentAnswer {
        guard cas == .none || cas == copy.meta.cas else {
            return SubDocumentAnswer(status: .keyExists)
        }
        return withRequest { request in
            copy.value.withUnsafeBytes { buffer in
                let value = ByteWriter()
                let status = LookupMachine.run(
                    request,
                    on: DocumentView(meta: copy.meta, value: ByteView(buffer)),
                    context: context,
                    readsSystemAttributes: privileges.contains(.systemXattrRead),
                    to: value
                )
                return SubDocumentAnswer(
                    status: status,
                    value: value.bytes,
                    isOfReplica: request.documentFlags.contains(.readsReplica)
                )
            }
        }
    }

    private func withRequest<Result>(_ body: (SubDocumentRequest) -> Result) -> Result {
        frame.withUnsafeBytes { buffer in
            let decoder = FrameDecoder(frameBytesMax: .max, valueBytesMax: .max)
            guard case .frame(let frame) = decoder.next(in: ByteView(buffer)),
                case .decoded(let request) = SubDocumentRequest.decode(frame)
            else { preconditionFailure("the frame was decoded before") }
            return body(request)
        }
    }
}
