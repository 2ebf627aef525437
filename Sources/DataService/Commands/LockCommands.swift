internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    /// TOUCH and GAT: another expiry, and with GAT the document as well.
    func touch(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let vBucket = vBucket(exchange, bucket.engine) else { return .done }
        let field = exchange.frame.extras.bigEndian(at: 0, as: UInt32.self)
        let turn = turn
        let expiry = Expiry.absolute(field, maxTTL: bucket.maxTTL, turn)
        var (wakesFlusher, wakesStreams) = (false, false)
        var needed: Int?
        let wait: Wait? = vBucket.withCore { core in
            let touched = core.touch(
                exchange.frame.key,
                hash: exchange.hash,
                expiry: expiry,
                turn
            )
            wakesFlusher = touched.wakesFlusher
            wakesStreams = touched.wakesStreams
            needed = touched.needed
            if needed != nil { return nil }
            guard case .found(let item, let cas) = touched.outcome else {
                return answerRead(exchange, touched.outcome)
            }
            let opcode = exchange.command.opcode
            if opcode == .touch {
                answerTouched(exchange, cas)
            } else {
                appendDocument(item, cas, exchange, withKey: opcode == .getAndTouchKey)
            }
            return nil
        }
        if wakesFlusher { wakeFlusher(exchange, bucket) }
        if wakesStreams { wakeStreams(exchange, bucket) }
        if let needed { return waitForRoom(exchange, needed, bucket, completion) }
        if let wait { return self.wait(exchange, for: wait, completion) }
        bucket.counters.count(.otherCommands, row: context.row)
        return .done
    }

    private func answerTouched(_ exchange: Exchange, _ cas: CAS) {
        ResponseEncoder.append(
            .success,
            to: output,
            replyTo: exchange.replyTo,
            cas: cas,
            duration: duration
        )
    }

    func getAndLock(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let vBucket = vBucket(exchange, bucket.engine) else { return .done }
        let extras = exchange.frame.extras
        let asked = extras.isEmpty ? 0 : extras.bigEndian(at: 0, as: UInt32.self)
        let isFitting = asked > 0 && asked <= Limits.lockSecondsMax
        let wait: Wait? = vBucket.withCore { core in
            let outcome = core.getAndLock(
                exchange.frame.key,
                hash: exchange.hash,
                seconds: isFitting ? asked : Limits.lockSecondsDefault,
                turn
            )
            guard case .found(let item, let cas) = outcome else {
                return answerRead(exchange, outcome)
            }
            appendDocument(item, cas, exchange, withKey: false)
            return nil
        }
        if let wait { return self.wait(exchange, for: wait, completion) }
        bucket.counters.count(.otherCommands, row: context.row)
        return .done
    }

    func unlock(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard exchange.frame.cas != .none else {
            answer(.invalid, to: exchange.replyTo, because: "UNLOCK needs the lock's CAS.")
            return .done
        }
        guard let vBucket = vBucket(exchange, bucket.engine) else { return .done }
        let outcome = vBucket.withCore {
            $0.unlock(exchange.frame.key, hash: exchange.hash, cas: exchange.frame.cas, turn)
        }
        bucket.counters.count(.otherCommands, row: context.row)
        return finish(exchange, outcome, bucket, completion)
    }

    /// Answers a read that found nothing to give; returns what to wait for instead.
    private func answerRead(_ exchange: Exchange, _ outcome: ReadOutcome) -> Wait? {
        switch outcome {
        case .found: preconditionFailure("a document that was found is answered by its finder")
        case .wouldBlock(let wait): return wait
        case .notFound: if !exchange.command.isQuiet { answer(.keyNotFound, to: exchange.replyTo) }
        case .locked: answer(.locked, to: exchange.replyTo)
        case .temporaryFailure: answer(.temporaryFailure, to: exchange.replyTo)
        case .inProgress: answerOutstanding(exchange, isInherited: false)
        case .recommitting: answerOutstanding(exchange, isInherited: true)
        case .notMyVBucket: answerNotMyVBucket(exchange)
        }
        return nil
    }
}
