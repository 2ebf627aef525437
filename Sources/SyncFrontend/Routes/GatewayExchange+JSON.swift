package import Bytes
package import JSON
package import SyncWire

/// Bodies and answers of JSON, for routes of a database and of the whole gateway.
extension GatewayExchange {
    /// Reads the body; empty if there is none.
    ///
    /// - Throws: `Refusal` 400 or 413.
    package func body(atMost bytesMax: Int) async throws(Refusal) -> ByteWriter {
        let result = await withUnsafeContinuation { waiter in
            readBody(atMost: bytesMax) { waiter.resume(returning: Sent($0)) }
        }
        return try result.body.get()
    }

    /// The body's buffer changes hands once.
    private struct Sent: @unchecked Sendable {  // tidy:allow one owner at a time
        let body: Result<ByteWriter, Refusal>
        init(_ body: Result<ByteWriter, Refusal>) { self.body = body }
    }

    /// - Throws: `Refusal` 415 if the body says to be no JSON; a request may leave the type out.
    package func requireJSONType() throws(Refusal) {
        guard let type = request.header("Content-Type"), !type.isEmpty,
            !type.hasPrefix("application/json")
        else { return }
        throw .contentType(type)
    }

    package func answer(
        json status: Int,
        _ headers: AnswerHeaders = [:],
        _ write: (inout JSONWriter) -> Void
    ) {
        let output = ByteWriter()
        var writer = JSONWriter(output)
        write(&writer)
        answer(json: output, status: status, headers)
    }

    /// Answers with a text that is no JSON, or that Sync Gateway does not call JSON.
    func answer(_ type: String, _ text: String) {
        let body = ByteWriter()
        body.append(text: text)
        body.withView { answer(200, ["Content-Type": type], body: $0) }
    }
}
