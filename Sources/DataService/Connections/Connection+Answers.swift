internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

extension Connection {
    /// How long the request took so far, where the client wants to know.
    var duration: ServerDuration? {
        guard isTracingAgreed else { return nil }
        let now = service.environment.time.monotonicNanoseconds()
        return ServerDuration(microseconds: (now &- turnStart) / 1_000)
    }

    /// A bare status; with a sentence of why where the client can read it.
    func answer(_ status: Status, to replyTo: ReplyTo, because reason: String? = nil) {
        let status =
            features.contains(.extendedErrors) || isPlain ? status : status.withoutExtendedErrors
        guard let reason, isJSONAgreed, features.contains(.extendedErrors) else {
            // Clients of long ago know it by these words.
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
