internal import Bytes
internal import Engine
internal import JSON
internal import Vocabulary
internal import Wire

extension Connection {
    func store(
        _ exchange: Exchange,
        _ mode: StoreRequest.Mode,
        _ completion: Completion?
    ) -> Execution {
        let bucket = selectedBucket
        let frame = exchange.frame
        // A pattern, as `==` of another module's enum is a call through its witness table.
        if case .add = mode, frame.cas != .none {
            answer(.invalid, to: exchange.replyTo, because: "ADD takes no CAS.")
            return .done
        }
        let value = frame.value
        guard let datatype = datatype(of: frame, value) else {
            answer(.invalid, to: exchange.replyTo, because: "The datatype was not agreed on.")
            return .done
        }
        guard let document = document(exchange, bucket) else { return .done }
        let operations = operations(exchange, on: bucket, completion)
        let request = StoreRequest(
            key: frame.key,
            hash: exchange.hash,
            value: value,
            flags: frame.extras.bigEndian(at: 0, as: UInt32.self),
            expiry: operations.expiry(
                ofField: frame.extras.bigEndian(at: 4, as: UInt32.self)
            ),
            datatype: datatype,
            cas: frame.cas,
            mode: mode,
            preservesExpiry: exchange.framing.preservesExpiry
        )
        let outcome = operations.store(document, request)
        return finishWrite(exchange, outcome, document, bucket, completion)
    }

    /// The datatype of a request's value; nil if the client states one that it did not agree to.
    ///
    /// Clients without the JSON feature, and those that never set the bit, store JSON too. Other
    /// clients need the datatype, so the value is examined.
    private func datatype(of frame: Frame, _ value: ByteView) -> Datatype? {
        let said = frame.datatype
        if said.isEmpty { return context.validator.isDocument(value) ? .json : [] }
        return said == .json && isJSONAgreed ? .json : nil
    }

    func delete(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let document = document(exchange, bucket) else { return .done }
        let outcome = operations(exchange, on: bucket, completion).delete(
            document,
            cas: exchange.frame.cas
        )
        return finishWrite(exchange, outcome, document, bucket, completion)
    }

    func extend(
        _ exchange: Exchange,
        atFront: Bool,
        _ completion: Completion?
    ) -> Execution {
        let bucket = selectedBucket
        let said = exchange.frame.datatype
        guard said.isEmpty || said == .json && isJSONAgreed else {
            answer(.invalid, to: exchange.replyTo, because: "The datatype was not agreed on.")
            return .done
        }
        guard let document = document(exchange, bucket) else { return .done }
        let outcome = operations(exchange, on: bucket, completion).extend(
            document,
            with: exchange.frame.value,
            atFront: atFront,
            cas: exchange.frame.cas
        )
        return finishWrite(exchange, outcome, document, bucket, completion)
    }

    func arithmetic(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let document = document(exchange, bucket) else { return .done }
        let operations = operations(exchange, on: bucket, completion)
        let extras = exchange.frame.extras
        let expiry = extras.bigEndian(at: 16, as: UInt32.self)
        let mustExist = expiry == .max
        let request = ArithmeticRequest(
            key: exchange.frame.key,
            hash: exchange.hash,
            isIncrement: exchange.command.opcode == .increment,
            delta: extras.bigEndian(at: 0, as: UInt64.self),
            initial: mustExist ? nil : extras.bigEndian(at: 8, as: UInt64.self),
            expiry: mustExist ? 0 : operations.expiry(ofField: expiry),
            cas: exchange.frame.cas
        )
        let outcome = operations.count(document, request)
        return finishWrite(exchange, outcome, document, bucket, completion)
    }

    /// Converts the outcome of a write into an answer or a wait.
    @inline(__always)
    func finishWrite(
        _ exchange: Exchange,
        _ outcome: AttemptOutcome,
        _ document: DocumentAddress,
        _ bucket: OpenBucket,
        _ completion: Completion?
    ) -> Execution {
        switch outcome {
        case .stored(let stored):
            guard !exchange.command.isQuiet else { break }
            answerStored(
                exchange,
                cas: stored.cas,
                uuid: stored.uuid,
                seqno: stored.seqno,
                number: stored.number
            )
        case .prepared(let prepared): return waitForCopies(exchange, prepared, document, bucket)
        case .refused(let refusal): answer(refusal, exchange)
        case .waits(let wait):
            return self.wait(exchange, for: wait, of: document, bucket, completion)
        case .found: preconditionFailure("a write reads nothing")
        }
        return .done
    }

    @inline(__always)
    func answerStored(
        _ exchange: Exchange,
        cas: CAS,
        uuid: VBucketUUID,
        seqno: Seqno,
        number: UInt64
    ) {
        switch exchange.command.opcode {
        case .increment, .decrement: answerCounter(exchange, cas, uuid, seqno, number)
        case .unlock: answer(.success, to: exchange.replyTo)
        default:
            if isTokenAgreed {
                ResponseEncoder.appendMutation(
                    to: output,
                    replyTo: exchange.replyTo,
                    cas: cas,
                    uuid: uuid,
                    seqno: seqno,
                    duration: duration
                )
            } else {
                ResponseEncoder.append(
                    .success,
                    to: output,
                    replyTo: exchange.replyTo,
                    // Plain memcached has no tombstones, and its clients check that.
                    cas: isPlain && exchange.command.opcode == .delete ? .none : cas,
                    duration: duration
                )
            }
        }
    }

    /// A counter's answer always has its eight bytes: clients copy them unchecked (kv.md 9).
    private func answerCounter(
        _ exchange: Exchange,
        _ cas: CAS,
        _ uuid: VBucketUUID,
        _ seqno: Seqno,
        _ number: UInt64
    ) {
        let scratch = context.scratch
        scratch.removeAll()
        if isTokenAgreed {
            scratch.append(bigEndian: uuid.value)
            scratch.append(bigEndian: seqno.value)
        }
        scratch.append(bigEndian: number)
        let extrasCount = scratch.count - 8
        ResponseEncoder.append(
            .success,
            to: output,
            replyTo: exchange.replyTo,
            cas: cas,
            extras: scratch.view.slice(0, extrasCount),
            value: scratch.view.dropFirst(extrasCount),
            duration: duration
        )
    }
}
