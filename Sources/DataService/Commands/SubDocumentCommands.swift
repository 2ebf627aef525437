internal import Bytes
internal import Engine
internal import SubDocument
internal import Vocabulary
internal import Wire

/// Commands on parts of documents and on extended attributes.
///
/// A document of more than `Limits.lockedTransformBytesMax` is read and changed on the lane `nonIO`,
/// without the vBucket's lock, as the document browser does. Everything else runs to completion here.
extension Connection {
    func subDocument(_ request: CommandContext, _ completion: Completion?) -> Execution {
        guard request.frame.datatype.isEmpty else {
            let reason = "A request on parts of a document has no datatype."
            return refuse(request, .invalid, reason)
        }
        let decoded: SubDocumentRequest
        switch SubDocumentRequest.decode(request.frame) {
        case .decoded(let value): decoded = value
        case .refused(let status):
            return refuse(request, status)
        }
        let refusal = RequestCheck.refusal(
            of: decoded,
            hasCAS: request.frame.cas != .none,
            RequestCheck.Allowance(attributes: features.contains(.xattr))
        )
        if let refusal { return refuse(request, refusal) }
        return decoded.isMutation
            ? mutate(request, decoded, completion) : lookUp(request, decoded, completion)
    }

    // MARK: Lookups

    private func lookUp(
        _ request: CommandContext,
        _ lookup: SubDocumentRequest,
        _ completion: Completion?
    ) -> Execution {
        let bucket = selectedBucket
        let isReplica = lookup.documentFlags.contains(.readsReplica)
        guard
            let document = isReplica
                ? replicaDocument(request, bucket) : document(request, bucket)
        else { return .done }
        let macros = macroContext(of: document, isNeeded: lookup.namesVirtualAttributes)
        let value = context.scratch
        value.removeAll(keepingAtMost: 1 << 20)
        let copies = LookupMachine.documentCopies(lookup)
        func visit(_ item: Item, _ cas: CAS) -> Reading {
            guard request.frame.cas == .none || request.frame.cas == cas else {
                return .isOtherVersion
            }
            var meta = item.meta
            meta.cas = cas
            let version = DocumentView(meta: meta, value: item.value)
            let isLarge = item.valueCount > Limits.lockedTransformBytesMax
            guard copies == 0 || hasRoom(for: item, copies: copies) else { return .refused }
            guard !isLarge || !LookupMachine.scans(lookup, version) else { return .deferred }
            // Parts of a document together count as one copy.
            guard copies > 0 || hasRoom(for: item, copies: 1) else { return .refused }
            let status = LookupMachine.run(
                lookup,
                on: version,
                context: macros,
                readsSystemAttributes: access.privileges.contains(.systemXattrRead),
                to: value
            )
            return .answered(status, cas)
        }
        let operations = operations(request, on: bucket, completion)
        let includesDeleted = lookup.documentFlags.contains(.accessesDeleted)
        let result =
            isReplica
            ? operations.getReplica(document, includesDeleted: includesDeleted, visit)
            : operations.get(document, includesDeleted: includesDeleted, visit)
        guard case .done(let reading) = result else {
            return finishRead(
                request,
                result.map { _ in },
                of: document,
                in: bucket,
                completion: completion
            )
        }
        switch reading {
        case .answered(let status, let cas):
            answerSubDocument(request, status, cas: cas, value: value.view)
        case .isOtherVersion: answer(.keyExists, to: request.replyTo)
        case .refused: answerNoReplyMemory(request)
        case .deferred: return deferLookup(request, lookup, of: document, in: bucket, macros)
        }
        return .done
    }

    /// The result of a visit to a document.
    private enum Reading {
        case answered(Status, CAS)
        /// The request names another version.
        case isOtherVersion
        /// There is no memory for the answer.
        case refused
        /// The document is too large to be read here.
        case deferred
    }

    /// The document in a copy that may be a replica; answers and returns nil if there is no copy.
    func replicaDocument(
        _ request: CommandContext,
        _ bucket: OpenBucket
    ) -> DocumentAddress? {
        let number = vBucketNumber(request.frame, bucket.engine)
        guard let vBucket = bucket.engine[number] else {
            answerNotMyVBucket(request)
            return nil
        }
        return DocumentAddress(
            key: request.frame.key,
            hash: request.hash,
            id: VBucketID(number),
            vBucket: vBucket
        )
    }

    /// The vBucket UUID and the clock, for virtual attributes and macros; the vBucket's lock is acquired
    /// only if the request has some.
    func macroContext(of document: DocumentAddress, isNeeded: Bool) -> MacroContext {
        guard isNeeded else { return MacroContext(uuid: VBucketUUID(0), seconds: 0) }
        let (uuid, clock) = document.vBucket.withCore { ($0.uuid, $0.clock) }
        let next = clock.peek(wallNanoseconds)
        return MacroContext(
            uuid: uuid,
            seconds: next.cas.value / 1_000_000_000,
            isLogical: next.isLogical
        )
    }

    /// Reads a large document on another lane.
    private func deferLookup(
        _ request: CommandContext,
        _ lookup: SubDocumentRequest,
        of document: DocumentAddress,
        in bucket: OpenBucket,
        _ macros: MacroContext
    ) -> Execution {
        let owned = OwnedRequest(request.frame, access.privileges)
        let options = DocumentService.AttemptOptions(
            vBucket: document.id,
            readsReplica: lookup.documentFlags.contains(.readsReplica),
            includesDeleted: lookup.documentFlags.contains(.accessesDeleted)
        )
        let answer = Guarded(SubDocumentAnswer())
        return wait(request, .lane) { done in
            @Sendable func read(_ copy: DocumentCopy) {
                let made = owned.lookUp(copy, macros)
                answer.withLock { $0 = made }
            }
            service.read(owned.key, inBucket: bucket.name, options, read) { outcome in
                done(.subDocument(.ended(outcome, answer.withLock { $0 })))
            }
        }
    }

    // MARK: Answers

    /// Appends the answer of a sub-document command; a CAS of none leaves it out.
    func answerSubDocument(
        _ request: CommandContext,
        _ status: Status,
        cas: CAS,
        value: ByteView,
        token: (uuid: VBucketUUID, seqno: Seqno)? = nil
    ) {
        guard isTokenAgreed, let token else {
            respond(request, status, cas: cas, value: value)
            return
        }
        var extras = (token.uuid.value.bigEndian, token.seqno.value.bigEndian)
        withUnsafeBytes(of: &extras) { extras in
            respond(request, status, cas: cas, extras: ByteView(extras), value: value)
        }
    }
}
