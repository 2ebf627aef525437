internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    /// What of a vBucket's history is here, and what of it is on disk.
    ///
    /// Clients ask all copies, to see how many have a write: one that follows counts what it has whole.
    /// Who asks about something that is not on disk yet waits for it: its commit starts at once.
    func observeSeqno(_ exchange: Exchange) -> Execution {
        let bucket = selectedBucket
        guard exchange.frame.value.count == 8 else {
            answer(.invalid, to: exchange.replyTo, because: "OBSERVE_SEQNO takes a vBucket UUID.")
            return .done
        }
        let number = vBucketNumber(exchange.frame, bucket.engine)
        guard let (vBucket, state) = observable(number, exchange, bucket.engine) else {
            return .done
        }
        let asked = VBucketUUID(exchange.frame.value.bigEndian(at: 0, as: UInt64.self))
        let scratch = context.scratch
        scratch.removeAll()
        var isBehind = false
        let isHere = vBucket.withCore { core in
            guard core.state == state else { return false }
            isBehind = core.durableSeqno < core.highSeqno
            let log = core.failoverLog.entries
            var (onDisk, high) = (core.durableSeqno, core.highSeqno)
            if state == .replica {
                // Of a history that it does not know it has nothing, however far its own goes.
                let knows = log.contains { $0.uuid == asked }
                (onDisk, high) = knows ? (core.coveredOnDisk, core.coveredSeqno) : (.zero, .zero)
            }
            let old = log.firstIndex { $0.uuid == asked }.flatMap { $0 == 0 ? nil : log[$0 - 1] }
            scratch.append(old == nil ? 0 : 1)
            scratch.append(bigEndian: number)
            scratch.append(bigEndian: core.uuid.value)
            scratch.append(bigEndian: onDisk.value)
            scratch.append(bigEndian: high.value)
            if let old {
                scratch.append(bigEndian: asked.value)
                scratch.append(bigEndian: old.seqno.value)
            }
            return true
        }
        guard isHere else {
            answerNotMyVBucket(exchange)
            return .done
        }
        if isBehind { bucket.disk?.flushNow(VBucketID(number)) }
        ResponseEncoder.append(
            .success,
            to: output,
            replyTo: exchange.replyTo,
            value: scratch.view,
            duration: duration
        )
        bucket.counters.count(.otherCommands, row: context.row)
        return .done
    }

    private enum KeyState: UInt8 {
        case notPersisted = 0x00
        case persisted = 0x01
        case notFound = 0x80
        case logicallyDeleted = 0x81
    }

    /// OBSERVE: the same question about single keys, as older clients ask it.
    func observe(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        let result = ByteWriter()
        var reader = ByteReader(exchange.frame.value)
        while !reader.isAtEnd {
            guard let number = reader.bigEndian(UInt16.self),
                let keyCount = reader.bigEndian(UInt16.self), keyCount > 0,
                Int(keyCount) <= Limits.keyBytesMax, let key = reader.bytes(Int(keyCount))
            else {
                answer(
                    .invalid,
                    to: exchange.replyTo,
                    because: "OBSERVE takes (vBucket, key) pairs."
                )
                return .done
            }
            guard let copy = observable(number, exchange, bucket.engine) else { return .done }
            let state: KeyState
            let cas: CAS
            let (found, wakesFlusher) = findKey(key, copy.vBucket, copy.state)
            if wakesFlusher { bucket.disk?.noteDirty(VBucketID(number)) }
            switch found {
            case .found(let itsState, let itsCAS): (state, cas) = (itsState, itsCAS)
            case .notMyVBucket:
                answerNotMyVBucket(exchange)
                return .done
            case .recommitting:
                answerOutstanding(exchange, isInherited: true)
                return .done
            case .temporaryFailure:
                answer(.temporaryFailure, to: exchange.replyTo)
                return .done
            case .needs(let need):
                return wait(exchange, for: need, of: VBucketID(number), key: key, completion)
            }
            if state == .notPersisted { bucket.disk?.flushNow(VBucketID(number)) }
            result.append(bigEndian: number)
            result.append(bigEndian: keyCount)
            result.append(key)
            result.append(state.rawValue)
            result.append(bigEndian: cas.value)
        }
        ResponseEncoder.append(
            .success,
            to: output,
            replyTo: exchange.replyTo,
            value: result.view,
            duration: duration
        )
        return .done
    }

    private enum KeyOutcome {
        case found(KeyState, CAS)
        case notMyVBucket
        /// A durable write of it is to be committed again: what is here may be older.
        case recommitting
        case temporaryFailure
        /// Memory does not know: its vBucket is being loaded, or its version is on disk only.
        case needs(Wait)
    }

    private func findKey(
        _ key: ByteView,
        _ vBucket: VBucket,
        _ state: VBucketState
    ) -> (KeyOutcome, wakesFlusher: Bool) {
        let hash = service.hash(key)
        return vBucket.withCore { core in
            guard state == .active else {
                let found = core.getReplicaMeta(key, hash: hash)
                // What came of a snapshot that is not whole may be gone again.
                if case .found(let item, _) = found, item.seqno > core.coveredSeqno {
                    return (.found(.notFound, .none), false)
                }
                return (keyOutcome(found, core.coveredOnDisk), false)
            }
            let outcome = keyOutcome(core.getMeta(key, hash: hash, turn), core.durableSeqno)
            return (outcome, core.takeOwedWake())
        }
    }

    private func keyOutcome(_ outcome: ReadOutcome, _ durable: Seqno) -> KeyOutcome {
        switch outcome {
        case .found(let item, let cas):
            if item.isDeleted {
                let isGone = item.seqno <= durable
                return .found(isGone ? .notFound : .logicallyDeleted, cas)
            }
            let isPersisted = item.seqno <= durable
            return .found(isPersisted ? .persisted : .notPersisted, cas)
        case .notMyVBucket: return .notMyVBucket
        case .wouldBlock(let wait): return .needs(wait)
        case .recommitting: return .recommitting
        case .temporaryFailure: return .temporaryFailure
        // Neither is said of metadata.
        case .notFound, .inProgress, .locked: return .found(.notFound, .none)
        }
    }
}
