internal import Bytes
internal import Engine
internal import JSON
internal import Vocabulary
internal import Wire

extension Connection {
    func store(
        _ request: CommandContext,
        _ mode: StoreRequest.Mode,
        _ completion: Completion?
    ) -> Execution {
        let bucket = selectedBucket
        let frame = request.frame
        // A pattern, as `==` of another module's enum is a call through its witness table.
        if case .add = mode, frame.cas != .none {
            return refuse(request, .invalid, "ADD takes no CAS.")
        }
        let value = frame.value
        guard let datatype = datatype(of: frame, value) else {
            return refuse(request, .invalid, "The datatype was not agreed on.")
        }
        guard let document = document(request, bucket) else { return .done }
        let operations = operations(request, on: bucket, completion)
        let operation = StoreRequest(
            key: frame.key,
            hash: request.hash,
            value: value,
            flags: frame.extras.bigEndian(at: 0, as: UInt32.self),
            expiry: operations.expiry(
                ofField: frame.extras.bigEndian(at: 4, as: UInt32.self)
            ),
            datatype: datatype,
            cas: frame.cas,
            mode: mode,
            preservesExpiry: request.framing.preservesExpiry
        )
        let result = operations.store(document, operation)
        return finishWrite(request, result, of: document, in: bucket, completion: completion)
    }

    /// The datatype of a request's value; nil if the client states one that it did not agree to.
    ///
    /// The value decides about JSON, and not the request. Many clients never set the bit, and views
    /// and sub-document commands of other clients rely on it.
    private func datatype(of frame: Frame, _ value: ByteView) -> Datatype? {
        let said = frame.datatype
        guard said.isEmpty || said == .json && isJSONAgreed else { return nil }
        return context.validator.isDocument(value) ? .json : []
    }

    func delete(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let document = document(request, bucket) else { return .done }
        let result = operations(request, on: bucket, completion).delete(
            document,
            cas: request.frame.cas
        )
        return finishWrite(request, result, of: document, in: bucket, completion: completion)
    }

    func extend(
        _ request: CommandContext,
        atFront: Bool,
        _ completion: Completion?
    ) -> Execution {
        let bucket = selectedBucket
        let said = request.frame.datatype
        guard said.isEmpty || said == .json && isJSONAgreed else {
            return refuse(request, .invalid, "The datatype was not agreed on.")
        }
        guard let document = document(request, bucket) else { return .done }
        let result = operations(request, on: bucket, completion).extend(
            document,
            with: request.frame.value,
            atFront: atFront,
            cas: request.frame.cas
        )
        return finishWrite(request, result, of: document, in: bucket, completion: completion)
    }

    func arithmetic(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let document = document(request, bucket) else { return .done }
        let operations = operations(request, on: bucket, completion)
        let extras = request.frame.extras
        let expiry = extras.bigEndian(at: 16, as: UInt32.self)
        let mustExist = expiry == .max
        let operation = ArithmeticRequest(
            key: request.frame.key,
            hash: request.hash,
            isIncrement: request.command.opcode == .increment,
            delta: extras.bigEndian(at: 0, as: UInt64.self),
            initial: mustExist ? nil : extras.bigEndian(at: 8, as: UInt64.self),
            expiry: mustExist ? 0 : operations.expiry(ofField: expiry),
            cas: request.frame.cas
        )
        let result = operations.count(document, operation)
        return finishWrite(request, result, of: document, in: bucket, completion: completion)
    }

    /// Converts the result of a write into an answer or a wait.
    @inline(__always)
    func finishWrite(
        _ request: CommandContext,
        _ result: WriteResult,
        of document: DocumentAddress,
        in bucket: OpenBucket,
        completion: Completion?
    ) -> Execution {
        switch result {
        case .done(let stored):
            guard !request.command.isQuiet else { break }
            answerStored(
                request,
                cas: stored.cas,
                uuid: stored.uuid,
                seqno: stored.seqno,
                number: stored.number
            )
        case .prepared(let prepared):
            return waitForCopies(request, prepared, of: document, in: bucket)
        case .refused(let refusal): answer(refusal, request)
        case .wait(let wait):
            return self.wait(request, for: wait, of: document, bucket, completion)
        }
        return .done
    }

    @inline(__always)
    func answerStored(
        _ request: CommandContext,
        cas: CAS,
        uuid: VBucketUUID,
        seqno: Seqno,
        number: UInt64
    ) {
        switch request.command.opcode {
        case .increment, .decrement:
            answerCounter(request, cas, uuid: uuid, seqno: seqno, number: number)
        case .unlock: answer(.success, to: request.replyTo)
        default:
            if isTokenAgreed {
                ResponseEncoder.appendMutation(
                    to: output,
                    replyTo: request.replyTo,
                    cas: cas,
                    uuid: uuid,
                    seqno: seqno,
                    duration: duration
                )
            } else {
                ResponseEncoder.append(
                    .success,
                    to: output,
                    replyTo: request.replyTo,
                    // Plain memcached has no tombstones, and its clients check that.
                    cas: isMemcachedListener && request.command.opcode == .delete ? .none : cas,
                    duration: duration
                )
            }
        }
    }

    /// A counter's answer always has its eight bytes: clients copy them unchecked.
    private func answerCounter(
        _ request: CommandContext,
        _ cas: CAS,
        uuid: VBucketUUID,
        seqno: Seqno,
        number: UInt64
    ) {
        let scratch = context.scratch
        scratch.removeAll()
        if isTokenAgreed {
            scratch.append(bigEndian: uuid.value)
            scratch.append(bigEndian: seqno.value)
        }
        scratch.append(bigEndian: number)
        let extrasCount = scratch.count - 8
        respond(
            request,
            .success,
            cas: cas,
            extras: scratch.view.slice(0, extrasCount),
            value: scratch.view.dropFirst(extrasCount)
        )
    }
}
