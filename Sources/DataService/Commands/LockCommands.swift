internal import Bytes
internal import Vocabulary
internal import Wire

extension Connection {
    /// TOUCH and GAT: sets the expiry; GAT also reads the document.
    func touch(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let document = document(request, bucket) else { return .done }
        let operations = operations(request, on: bucket, completion)
        let field = request.frame.extras.bigEndian(at: 0, as: UInt32.self)
        let opcode = request.command.opcode
        let result = operations.touch(document, expiry: operations.expiry(ofField: field)) {
            item,
            cas in
            if opcode == .touch {
                respond(request, .success, cas: cas)
            } else {
                appendDocument(
                    item,
                    cas,
                    to: request,
                    withKey: opcode == .getAndTouchKey
                )
            }
        }
        return finishRead(request, result, of: document, in: bucket, completion: completion)
    }

    func getAndLock(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard let document = document(request, bucket) else { return .done }
        let extras = request.frame.extras
        let asked = extras.isEmpty ? 0 : extras.bigEndian(at: 0, as: UInt32.self)
        let isFitting = asked > 0 && asked <= Limits.lockSecondsMax
        let result = operations(request, on: bucket, completion).getAndLock(
            document,
            seconds: isFitting ? asked : Limits.lockSecondsDefault
        ) { item, cas in
            appendDocument(item, cas, to: request)
        }
        return finishRead(request, result, of: document, in: bucket, completion: completion)
    }

    func unlock(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let bucket = selectedBucket
        guard request.frame.cas != .none else {
            return refuse(request, .invalid, "UNLOCK needs the lock's CAS.")
        }
        guard let document = document(request, bucket) else { return .done }
        let result = operations(request, on: bucket, completion).unlock(
            document,
            cas: request.frame.cas
        )
        return finishWrite(request, result, of: document, in: bucket, completion: completion)
    }
}
