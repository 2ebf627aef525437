internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

extension Connection {
    /// The duration of the request so far; nil unless the client agreed to tracing.
    var duration: ServerDuration? {
        guard isTracingAgreed else { return nil }
        let now = context.monotonicNanoseconds()
        return ServerDuration(microseconds: (now &- turnStart) / 1_000)
    }

    /// Answers with a status, and with the reason if the client can read it.
    func answer(_ status: Status, to replyTo: ReplyTo, because reason: String? = nil) {
        let status =
            features.contains(.extendedErrors) || isMemcachedListener
            ? status : status.withoutExtendedErrors
        guard let reason, isJSONAgreed, features.contains(.extendedErrors) else {
            // Old clients identify it by this text.
            let isInWords = status == .keyNotFound && !isJSONAgreed
            let text: StaticString = isInWords ? "Not found" : ""
            let words = UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
            ResponseEncoder.append(
                status,
                to: output,
                replyTo: replyTo,
                value: ByteView(words),
                duration: duration
            )
            return
        }
        let value = ErrorContext.json(reason)
        value.withUnsafeBytes { buffer in
            ResponseEncoder.append(
                status,
                to: output,
                replyTo: replyTo,
                datatype: .json,
                value: ByteView(buffer),
                duration: duration
            )
        }
    }

    /// Answers a request with a status and its reason, if it has one.
    func answer(_ status: Status, _ request: CommandContext, _ reason: String?) {
        answer(status, to: request.replyTo, because: reason)
    }

    /// Answers with a status, which ends the request.
    func refuse(
        _ request: CommandContext,
        _ status: Status,
        _ reason: String? = nil
    ) -> Execution {
        answer(status, to: request.replyTo, because: reason)
        return .done
    }

    /// Answers that a document's state refuses the request, which ends it.
    func refuse(_ request: CommandContext, for refusal: DocumentRefusal) -> Execution {
        answer(refusal, request)
        return .done
    }

    /// Appends the answer of a command, with the duration if the client agreed to tracing.
    func respond(
        _ request: CommandContext,
        _ status: Status,
        datatype: Datatype = [],
        cas: CAS = .none,
        extras: ByteView = .empty,
        key: ByteView = .empty,
        value: ByteView = .empty
    ) {
        ResponseEncoder.append(
            status,
            to: output,
            replyTo: request.replyTo,
            datatype: datatype,
            cas: cas,
            extras: extras,
            key: key,
            value: value,
            duration: duration
        )
    }
}
