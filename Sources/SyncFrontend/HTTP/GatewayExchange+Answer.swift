package import Bytes
internal import NIOCore
package import SyncWire

extension GatewayExchange {
    /// Sends a whole answer.
    ///
    /// - Parameters:
    ///   - status: 200 to 599.
    ///   - headers: Added to the fields of the exchange.
    ///   - body: Copied; dropped for HEAD and for a status that has no body.
    ///   - mayCompress: Whether it is gzipped for a client that accepts it, if it is long enough and of a type that
    ///     becomes smaller.
    package func answer(
        _ status: Int,
        _ headers: AnswerHeaders = [:],
        body: ByteView = .empty,
        mayCompress: Bool = true
    ) {
        guard let head = beginAnswer(status, headers) else { return }
        var conditions = connection.conditions(of: request)
        let isSent = !request.isHead && !head.isBodiless
        var body = body
        if isSent, mayCompress, AnswerCompression.pays(body.count, head), compresses(head) {
            body = connection.encoder.gzip(body)
            conditions.isGzipped = true
        }
        // Sync Gateway's answers to HEAD have the length of attachments, but none of JSON.
        let hasLength =
            !head.isBodiless && (isSent || head.headers["Content-Type"] != "application/json")
        conditions.framing = hasLength ? .length(body.count) : .none
        let bytes = connection.encoder.make { buffer in
            connection.encoder.writeHead(head, conditions, to: &buffer)
            if isSent { buffer.writeBytes(body.buffer) }
        }
        finish(bytes, isLast: conditions.isLast)
    }

    /// Sends a whole answer of JSON.
    package func answer(json body: ByteView, status: Int = 200, _ headers: AnswerHeaders = [:]) {
        var headers = headers
        headers["Content-Type"] = "application/json"
        answer(status, headers, body: body)
    }

    package func answer(json body: ByteWriter, status: Int = 200, _ headers: AnswerHeaders = [:]) {
        body.withView { answer(json: $0, status: status, headers) }
    }

    /// Sends `{"error":E,"reason":R}`; below 300, only the status.
    ///
    /// An answer that has begun ends without its rest: the connection is closed, so that the client notices.
    package func refuse(_ refusal: Refusal) {
        connection.checkLoop()
        if case .streaming = progress { return connection.abort() }
        guard refusal.status >= 300 else { return answer(refusal.status) }
        let body = ByteWriter()
        ErrorAnswer.append(status: refusal.status, reason: refusal.reason, to: body)
        body.withView { body in
            answer(
                refusal.status,
                ["Content-Type": "application/json"],
                body: body,
                mayCompress: false
            )
        }
    }

    /// Begins an answer that is written in parts.
    ///
    /// If it ends before its first flush and is small, it has a length; else it is chunked.
    package func begin(_ status: Int, _ headers: AnswerHeaders = [:], mayCompress: Bool = true) {
        guard let head = beginAnswer(status, headers) else { return }
        var conditions = connection.conditions(of: request)
        conditions.isGzipped = mayCompress && !request.isHead && compresses(head)
        if head.isBodiless {
            conditions.framing = .none
        } else if !request.isVersion11 {
            conditions.framing = .untilClose
            conditions.isLast = true
            connection.closeBehindAnswer()
        } else {
            conditions.framing = .chunked
        }
        let answer = StreamedAnswer(
            head,
            connection.encoder,
            conditions: conditions,
            isHead: request.isHead
        )
        progress = .streaming(answer)
    }

    /// Adds to a begun answer; kept until there are 16 KiB or it is flushed.
    package func write(_ bytes: ByteView) {
        stream { $0.write(bytes) }
    }

    package func write(_ bytes: ByteWriter) { bytes.withView { write($0) } }

    /// Sends all that was written, so that the client can read it.
    package func flush() {
        stream { $0.flush() }
    }

    /// Ends a begun answer.
    package func end() {
        connection.checkLoop()
        guard case .streaming(let answer) = progress else { return requireClosed() }
        finish(answer.end(), isLast: connection.isLast)
    }

    private func stream(_ step: (StreamedAnswer) -> ByteBuffer?) {
        connection.checkLoop()
        guard case .streaming(let answer) = progress else { return requireClosed() }
        if let bytes = step(answer) { connection.send(bytes) }
    }

    private func requireClosed() {
        precondition(isClosed, "an answer is written between its begin and its end")
    }

    /// The head of the answer; nil if the client is gone.
    private func beginAnswer(_ status: Int, _ headers: AnswerHeaders) -> AnswerHead? {
        connection.checkLoop()
        if isClosed { return nil }
        guard case .waiting = progress else { preconditionFailure("a request is answered once") }
        precondition(status >= 200 && status < 600, "an answer is final")
        self.status = status
        var head = AnswerHead(status: status, headers: self.headers)
        head.headers.append(headers)
        return head
    }

    private func compresses(_ head: AnswerHead) -> Bool {
        connection.server.settings.compressesAnswers && AnswerCompression.pays(head)
            && AnswerCompression.isAccepted(by: request)
    }

    private func finish(_ bytes: ByteBuffer, isLast: Bool) {
        markEnded()
        connection.finish(self, bytes, isLast: isLast)
    }
}
