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
        guard mode != .add || frame.cas == .none else {
            answer(.invalid, to: exchange.replyTo, because: "ADD takes no CAS.")
            return .done
        }
        guard let datatype = datatype(of: frame) else {
            answer(.invalid, to: exchange.replyTo, because: "The datatype was not agreed on.")
            return .done
        }
        guard let vBucket = vBucket(exchange, bucket.engine) else { return .done }
        guard let turn = writingTurn(exchange, bucket) else { return .done }
        let request = StoreRequest(
            key: frame.key,
            hash: exchange.hash,
            value: frame.value,
            flags: frame.extras.bigEndian(at: 0, as: UInt32.self),
            expiry: Expiry.absolute(
                frame.extras.bigEndian(at: 4, as: UInt32.self),
                maxTTL: bucket.maxTTL,
                turn
            ),
            datatype: datatype,
            cas: frame.cas,
            mode: mode,
            preservesExpiry: exchange.framing.preservesExpiry
        )
        let outcome = write(exchange, vBucket, bucket, turn) { $0.store(request, turn) }
        bucket.counters.count(.sets, row: context.row)
        return finish(exchange, outcome, bucket, completion)
    }

    /// What the value is; nil where the client says what it did not agree to say.
    ///
    /// Clients without the JSON feature, and those that never set the bit, store JSON too: others
    /// will want to know, so their values are looked at.
    private func datatype(of frame: Frame) -> Datatype? {
        let said = frame.datatype
        if said.isEmpty { return context.validator.isDocument(frame.value) ? .json : [] }
        return said == .json && isJSONAgreed ? .json : nil
    }

    func delete(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let vBucket = vBucket(exchange, bucket.engine),
            let turn = writingTurn(exchange, bucket)
        else { return .done }
        let outcome = write(exchange, vBucket, bucket, turn) {
            $0.delete(exchange.frame.key, hash: exchange.hash, cas: exchange.frame.cas, turn)
        }
        bucket.counters.count(.deletes, row: context.row)
        return finish(exchange, outcome, bucket, completion)
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
        guard let vBucket = vBucket(exchange, bucket.engine),
            let turn = writingTurn(exchange, bucket)
        else { return .done }
        let validator = context.validator
        let outcome = write(exchange, vBucket, bucket, turn) {
            $0.extend(
                exchange.frame.key,
                hash: exchange.hash,
                with: exchange.frame.value,
                atFront: atFront,
                cas: exchange.frame.cas,
                isJSON: { validator.isDocument($0) },
                turn
            )
        }
        bucket.counters.count(.sets, row: context.row)
        return finish(exchange, outcome, bucket, completion)
    }

    func arithmetic(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let vBucket = vBucket(exchange, bucket.engine),
            let turn = writingTurn(exchange, bucket)
        else { return .done }
        let extras = exchange.frame.extras
        let expiry = extras.bigEndian(at: 16, as: UInt32.self)
        let mustExist = expiry == .max
        let request = ArithmeticRequest(
            key: exchange.frame.key,
            hash: exchange.hash,
            isIncrement: exchange.command.opcode == .increment,
            delta: extras.bigEndian(at: 0, as: UInt64.self),
            initial: mustExist ? nil : extras.bigEndian(at: 8, as: UInt64.self),
            expiry: mustExist
                ? 0 : Expiry.absolute(expiry, maxTTL: bucket.maxTTL, turn),
            cas: exchange.frame.cas
        )
        let outcome = write(exchange, vBucket, bucket, turn) { $0.arithmetic(request, turn) }
        bucket.counters.count(.sets, row: context.row)
        return finish(exchange, outcome, bucket, completion)
    }

    /// Turns a write's outcome into its answer: the one switch from outcomes to statuses.
    @inline(__always)
    func finish(
        _ exchange: Exchange,
        _ outcome: MutationOutcome,
        _ bucket: OpenBucket,
        _ completion: Completion?
    ) -> Execution {
        switch outcome {
        case .stored(let stored):
            if stored.wakesFlusher { wakeFlusher(exchange, bucket) }
            if stored.wakesStreams { wakeStreams(exchange, bucket) }
            if bucket.engine.account.isAboveHighWatermark { bucket.pager.wake() }
            guard !exchange.command.isQuiet else { break }
            answerStored(
                exchange,
                cas: stored.cas,
                uuid: stored.uuid,
                seqno: stored.seqno,
                number: stored.number
            )
        case .prepared(let prepared):
            if prepared.wakesFlusher { wakeFlusher(exchange, bucket) }
            if prepared.wakesStreams { wakeStreams(exchange, bucket) }
            if bucket.engine.account.isAboveHighWatermark { bucket.pager.wake() }
            return waitForCopies(exchange, prepared, bucket)
        case .inProgress: answerOutstanding(exchange, isInherited: false)
        case .recommitting: answerOutstanding(exchange, isInherited: true)
        case .notFound: answer(.keyNotFound, to: exchange.replyTo)
        case .exists:
            if exchange.frame.cas != .none {
                bucket.counters.count(.casMismatches, row: context.row)
            }
            answer(.keyExists, to: exchange.replyTo)
        case .locked: answer(.locked, to: exchange.replyTo)
        case .notLocked: answer(.notLocked, to: exchange.replyTo)
        case .notStored: answer(.notStored, to: exchange.replyTo)
        case .notANumber: answer(.deltaBadValue, to: exchange.replyTo)
        case .tooLarge: answer(.tooBig, to: exchange.replyTo)
        case .noRoom(let bytes): return waitForRoom(exchange, bytes, bucket, completion)
        case .notMyVBucket: answerNotMyVBucket(exchange)
        case .wouldBlock(let wait): return self.wait(exchange, for: wait, completion)
        }
        return .done
    }

    /// Has a large write wait until the pager has made room for it; refuses other ones for now.
    ///
    /// - Parameters:
    ///   - exchange: The request.
    ///   - bytes: What it needs.
    ///   - bucket: Where.
    ///   - completion: What came of waiting before.
    /// - Returns: What the caller returns.
    @inline(never)
    func waitForRoom(
        _ exchange: Exchange,
        _ bytes: Int,
        _ bucket: OpenBucket,
        _ completion: Completion?
    ) -> Execution {
        switch completion {
        case .failed(let status, let reason):
            refuse(exchange, status, reason, bucket)
        case .roomMade:
            // Other writes were quicker; the pager is at work on the rest.
            refuse(exchange, .temporaryFailure, RoomText.full, bucket)
        default:
            if bucket.pager.needsRoom(bytes) {
                return wait(exchange) { bucket.pager.makeRoom(for: bytes, $0) }
            }
            bucket.pager.wake()
            refuse(exchange, .temporaryFailure, RoomText.full, bucket)
        }
        return .done
    }

    private func refuse(
        _ exchange: Exchange,
        _ status: Status,
        _ reason: String,
        _ bucket: OpenBucket
    ) {
        if status == .temporaryFailure {
            bucket.counters.count(.temporaryFailures, row: context.row)
        }
        answer(status, to: exchange.replyTo, because: reason)
    }

    func wakeFlusher(_ exchange: Exchange, _ bucket: OpenBucket) {
        let number = vBucketNumber(exchange.frame, bucket.engine)
        bucket.disk?.noteDirty(VBucketID(number))
    }

    /// Those who follow the vBucket had read everything.
    @inline(never)
    func wakeStreams(_ exchange: Exchange, _ bucket: OpenBucket) {
        bucket.traffic.tell(.changed, of: VBucketID(vBucketNumber(exchange.frame, bucket.engine)))
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
