internal import Bytes
internal import Engine
internal import JSON
internal import SubDocument
internal import Vocabulary
internal import Wire

extension Connection {
    /// Changes a document in one hold of its vBucket's lock, or on another lane if it is large.
    func mutate(
        _ request: CommandContext,
        _ mutation: SubDocumentRequest,
        _ completion: Completion?
    ) -> Execution {
        let bucket = selectedBucket
        guard let document = document(request, bucket) else { return .done }
        let macros = macroContext(of: document, isNeeded: mutation.expandsMacros)
        guard !transformsMuch(request, mutation) else {
            return deferMutation(request, mutation, of: document, in: bucket, macros)
        }
        let input = MutationMachine.Input(
            mutation,
            context: macros,
            jsonBodies: jsonBodies(of: mutation),
            writesSystemAttributes: access.privileges.contains(.systemXattrWrite)
        )
        let change = SubDocumentChange(input, preservesExpiry: request.framing.preservesExpiry)
        let results = ByteWriter(capacity: 64)
        // Answers borrow its memory.
        defer { withExtendedLifetime(results) {} }
        var status = Status.success
        // A large body over an existing document is not made under the lock either.
        let isLarge = request.frame.value.count > Limits.lockedTransformBytesMax
        let bounds = TransformBounds(
            bytesMax: isLarge ? 0 : Limits.lockedTransformBytesMax,
            copiesDeferred: false,
            makesDespiteCAS: mutation.documentFlags.contains(.makesDocument)
        )
        let operations = operations(request, on: bucket, completion)
        let update = operations.update(
            document,
            cas: request.frame.cas,
            bounds,
            includesDeleted: mutation.documentFlags.contains(.accessesDeleted)
        ) { view, writer in
            let applied = change.apply(to: view, writer, results)
            status = applied.status
            return applied.change
        }
        switch update {
        case .done(.unchanged):
            operations.count(.otherCommands)
            answerUnchanged(request, status, value: results.view)
            return .done
        case .done(.deferred):
            return deferMutation(request, mutation, of: document, in: bucket, macros)
        case .done(.stored(let stored)):
            let token = (stored.uuid, stored.seqno)
            answerSubDocument(request, status, cas: stored.cas, value: results.view, token: token)
            return .done
        case .prepared(let prepared):
            let answer = SubDocumentAnswer(status: status, value: results.bytes)
            return wait(request, .replicate) { done in
                bucket.syncWrites.wait(for: prepared.seqno, of: document.id) {
                    done(.subDocument(.durable($0, answer, $1)))
                }
            }
        case .wait, .refused:
            return finishWrite(
                request,
                update.map(\.version),
                of: document,
                in: bucket,
                completion: completion
            )
        }
    }

    /// Whether a request takes long with any document, even with a missing one.
    ///
    /// A new body is only copied, like the value of a SET.
    private func transformsMuch(
        _ request: CommandContext,
        _ mutation: SubDocumentRequest
    ) -> Bool {
        let count = request.frame.value.count
        guard count > Limits.lockedTransformBytesMax else { return false }
        let body = mutation.specs.reduce(0) { bytes, spec in
            spec.operation == .setDocument ? bytes + spec.value.count : bytes
        }
        return count - body > Limits.lockedTransformBytesMax
    }

    /// Which paths replace the whole body by JSON, the first one in the lowest bit.
    private func jsonBodies(of mutation: SubDocumentRequest) -> UInt16 {
        var bodies: UInt16 = 0
        for (index, spec) in mutation.specs.enumerated() where spec.operation == .setDocument {
            if context.validator.isDocument(spec.value) { bodies |= 1 << UInt16(index) }
        }
        return bodies
    }

    /// Changes a large document on another lane.
    private func deferMutation(
        _ request: CommandContext,
        _ mutation: SubDocumentRequest,
        of document: DocumentAddress,
        in bucket: OpenBucket,
        _ macros: MacroContext
    ) -> Execution {
        let owned = OwnedRequest(
            request.frame,
            access.privileges,
            jsonBodies: jsonBodies(of: mutation),
            preservesExpiry: request.framing.preservesExpiry
        )
        let options = DocumentService.AttemptOptions(
            vBucket: document.id,
            includesDeleted: mutation.documentFlags.contains(.accessesDeleted),
            cas: request.frame.cas,
            durability: requestedDurability(request),
            isLarge: request.frame.value.count > Limits.lockedTransformBytesMax,
            makesDespiteCAS: mutation.documentFlags.contains(.makesDocument)
        )
        let answer = Guarded(SubDocumentAnswer())
        return wait(request, .lane) { done in
            @Sendable func change(_ view: DocumentView?, _ writer: ByteWriter) -> DocumentChange {
                let (change, result) = owned.apply(to: view, writer, macros)
                answer.withLock { $0 = result }
                return change
            }
            service.change(owned.key, inBucket: bucket.name, options, change) { outcome in
                done(.subDocument(.ended(outcome, answer.withLock { $0 })))
            }
        }
    }

    // MARK: Decided requests

    /// Answers a request that other lanes have completed.
    ///
    /// The write was applied, or the document read: the outcome is reported even if the bucket has
    /// been deleted since. Without the lease the outcome of a write is unknown.
    func answerSubDocument(_ request: CommandContext, _ end: SubDocumentEnd) {
        switch end {
        case .durable(.committed(let cas, let seqno, let uuid, _), let answer, _):
            guard mayAnswerForActiveCopy else { return self.answer(.durabilityAmbiguous, request) }
            append(answer, request, cas: cas, token: (uuid, seqno))
        case .durable(.ambiguous, _, _): answer(.durabilityAmbiguous, request)
        case .ended(.found(let copy), let answer):
            guard answer.isOfReplica || mayAnswerForActiveCopy else {
                return answerElsewhere(request)
            }
            append(answer, request, cas: copy.meta.cas)
        case .ended(.written(let version), let answer):
            guard mayAnswerForActiveCopy else {
                return self.answer(
                    request.framing.durability == nil ? .temporaryFailure : .durabilityAmbiguous,
                    request
                )
            }
            append(answer, request, cas: version.cas, token: (version.uuid, version.seqno))
        case .ended(.unchanged, let answer):
            answer.value.withUnsafeBytes {
                answerUnchanged(request, answer.status, value: ByteView($0))
            }
        case .ended(.refused(.notMyVBucket), _): answerElsewhere(request)
        case .ended(.refused(let refusal), _): answer(refusal, request)
        case .ended(.noBucket, _): answer(.noBucket, to: request.replyTo)
        case .ended(.failed(let reason), _):
            answer(.temporaryFailure, request, reason)
        }
    }

    /// Answers a mutation that failed; the value names the path, if it is one's failure.
    private func answerUnchanged(_ request: CommandContext, _ status: Status, value: ByteView) {
        guard !value.isEmpty else { return answer(status, to: request.replyTo) }
        answerSubDocument(request, status, cas: .none, value: value)
    }

    private func append(
        _ answer: SubDocumentAnswer,
        _ request: CommandContext,
        cas: CAS,
        token: (uuid: VBucketUUID, seqno: Seqno)? = nil
    ) {
        answer.value.withUnsafeBytes {
            answerSubDocument(
                request,
                answer.status,
                cas: cas,
                value: ByteView($0),
                token: token
            )
        }
    }

    private func answerElsewhere(_ request: CommandContext) {
        guard bucket != nil else { return answer(.notMyVBucket, to: request.replyTo) }
        answerNotMyVBucket(request)
    }
}
