internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

extension Connection {
    /// TOUCH and GAT: sets the expiry; GAT also reads the document.
    func touch(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let document = document(exchange, bucket) else { return .done }
        let operations = operations(exchange, on: bucket, completion)
        let field = exchange.frame.extras.bigEndian(at: 0, as: UInt32.self)
        let opcode = exchange.command.opcode
        let outcome = operations.touch(document, expiry: operations.expiry(ofField: field)) {
            item,
            cas in
            if opcode == .touch {
                answerTouched(exchange, cas)
            } else {
                appendDocument(item, cas, exchange, withKey: opcode == .getAndTouchKey)
            }
        }
        return finishRead(exchange, outcome, document, bucket, completion)
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
        guard let document = document(exchange, bucket) else { return .done }
        let extras = exchange.frame.extras
        let asked = extras.isEmpty ? 0 : extras.bigEndian(at: 0, as: UInt32.self)
        let isFitting = asked > 0 && asked <= Limits.lockSecondsMax
        let outcome = operations(exchange, on: bucket, completion).getAndLock(
            document,
            seconds: isFitting ? asked : Limits.lockSecondsDefault
        ) { item, cas in
            appendDocument(item, cas, exchange, withKey: false)
        }
        return finishRead(exchange, outcome, document, bucket, completion)
    }

    func unlock(_ exchange: Exchange, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard exchange.frame.cas != .none else {
            answer(.invalid, to: exchange.replyTo, because: "UNLOCK needs the lock's CAS.")
            return .done
        }
        guard let document = document(exchange, bucket) else { return .done }
        let outcome = operations(exchange, on: bucket, completion).unlock(
            document,
            cas: exchange.frame.cas
        )
        return finishWrite(exchange, outcome, document, bucket, completion)
    }
}
