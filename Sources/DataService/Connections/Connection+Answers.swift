internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

extension Connection {
    /// The duration of the request so far; nil unless the client agreed to tracing.
    var duration: ServerDuration? {
        guard isTracingAgreed else { return nil }
        let now = service.environment.time.monotonicNanoseconds()
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
}
