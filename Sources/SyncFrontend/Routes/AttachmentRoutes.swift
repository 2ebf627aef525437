internal import Bytes
internal import JSON
internal import Revisions
internal import SyncService
internal import SyncWire

extension Gateway {
    var attachmentRoutes: [GatewayRoute] {
        let path = "/{db}/{doc}/{attachment...}"
        return [
            route([.get], path, RouteCall.getAttachment),
            route([.put], path, RouteCall.putAttachment),
            route([.delete], path, RouteCall.deleteAttachment),
        ]
    }
}

extension RouteCall {
    func getAttachment() async throws(Refusal) {
        let name = parameter("attachment")
        let revision = query["rev"].flatMap { $0.isEmpty ? nil : $0 }
        let found = try await database.read(ReadRequest(parameter("doc"), revision), for: requester)
        guard let attachment = found.body.attachments.first(where: { $0.name == name }) else {
            throw Refusal(404, "missing attachment \(name)")
        }
        if database.dialect == .third, query.bool("meta") {
            return answer { $0.value(attachment.json()) }
        }
        guard let count = await database.contentCount(of: attachment) else { throw .missing }
        exchange.headers["Accept-Ranges"] = "bytes"
        let range = ByteRange(request.header("Range"), length: count)
        var headers = headers(of: attachment)
        headers["Content-Range"] = range.contentRange(length: count)
        switch range {
        case .unsatisfiable: throw Refusal(416, "")
        case .whole: try await answer(200, headers, attachment: attachment, range: 0..<count)
        case .part(let offset, let length):
            try await answer(206, headers, attachment: attachment, range: offset..<offset + length)
        }
    }

    private func answer(
        _ status: Int,
        _ headers: AnswerHeaders,
        attachment: StoredAttachment,
        range: Range<Int>
    ) async throws(Refusal) {
        guard let bytes = await database.content(of: attachment, range) else { throw .missing }
        bytes.withUnsafeBytes { bytes in
            // A part of a compressed answer would be none of the content.
            exchange.answer(status, headers, body: ByteView(bytes), mayCompress: status == 200)
        }
    }

    private func headers(of attachment: StoredAttachment) -> AnswerHeaders {
        var headers: AnswerHeaders = ["Etag": EntityTag.quoted(attachment.digest)]
        headers["Content-Type"] = attachment.contentType ?? "application/octet-stream"
        if let encoding = attachment.encoding {
            if query["content_encoding"] ?? "true" == "true" {
                headers["Content-Encoding"] = encoding
            } else {
                // Couchbase Lite stores the encoded form, which some HTTP libraries would decode.
                headers["X-Content-Encoding"] = encoding
                headers["Content-Type"] = "application/gzip"
            }
        }
        let isForAdministrator = request.port == .administration
        switch database.dialect {
        case .first where isForAdministrator:
            headers["Content-Disposition"] =
                PartHeaders.attachment(attachment.name, contentType: nil)["Content-Disposition"]
        case .third where isForAdministrator || attachment.isActive:
            headers["Content-Disposition"] = "attachment"
        default: break
        }
        return headers
    }

    func putAttachment() async throws(Refusal) {
        let body = BodyStream(exchange)
        var content = ReceivedContent()
        while let part = try await body.next() {
            try part.withView { (view) throws(Refusal) in try content.append(view) }
            try body.keep(content.bytes.count)
        }
        try await store(content)
        let type = request.header("Content-Type") ?? ""
        try await write(
            .put(
                parameter("attachment"),
                content.name,
                contentType: type.isEmpty ? "application/octet-stream" : type
            ),
            status: 201
        )
    }

    func deleteAttachment() async throws(Refusal) {
        try await write(.delete(parameter("attachment")), status: 200)
    }

    private func write(_ change: SyncDatabase.AttachmentChange, status: Int) async throws(Refusal) {
        let id = parameter("doc")
        let sent = try await database.document(
            change,
            id,
            replacing: replacedRevision,
            for: requester
        )
        let revision = try await database.write(sent, by: requester).description
        answerWritten(status, id, revision: revision, headers: ["Etag": EntityTag.quoted(revision)])
    }
}

extension StoredAttachment {
    /// Whether a browser that shows the content would run scripts in it, or guess its type.
    fileprivate var isActive: Bool {
        let type = contentType?.split(separator: ";", omittingEmptySubsequences: false)[0] ?? ""
        return ["", "text/html", "application/xhtml+xml", "image/svg+xml"].contains(type)
    }
}
