internal import Bytes
internal import Credentials
internal import JSON
internal import Revisions
internal import SyncService
internal import SyncWire
internal import Syncing

extension Gateway {
    /// The routes of documents, their attachments, and lists of them.
    package var allDocumentRoutes: [GatewayRoute] {
        rootRoutes + databaseRoutes + bulkRoutes + localRoutes + designRoutes + documentRoutes
            + attachmentRoutes
    }

    var documentRoutes: [GatewayRoute] {
        [
            route([.get], "/{db}/{doc}", RouteCall.getDocument),
            route([.put], "/{db}/{doc}", RouteCall.putDocument),
            route([.delete], "/{db}/{doc}", RouteCall.deleteDocument),
            route([.post], "/{db}/", RouteCall.postDocument),
        ]
    }

    /// A route of a database for its users.
    func route(
        _ methods: Set<RouteMethod>,
        _ pattern: String,
        body: @escaping @Sendable (RouteCall) async throws(Refusal) -> Void
    ) -> GatewayRoute {
        GatewayRoute(methods, pattern) { [self] exchange in serve(exchange, .user, body: body) }
    }

    /// A route of a database for its users, which a method of the call answers.
    func route(
        _ methods: Set<RouteMethod>,
        _ pattern: String,
        _ method: @escaping @Sendable (RouteCall) -> () async throws(Refusal) -> Void
    ) -> GatewayRoute {
        route(methods, pattern) { (call) throws(Refusal) in try await method(call)() }
    }
}

extension RouteCall {
    /// The revision that a write replaces: `rev` of the query, else `If-Match`; nil if there is neither.
    var replacedRevision: String? {
        if let revision = query["rev"], !revision.isEmpty { return revision }
        return request.header("If-Match").flatMap { EntityTag.text(of: $0) }
    }

    var acceptance: Acceptance { Acceptance(request.header("Accept")) }

    /// - Throws: `Refusal` 400 or 413 if an option is invalid.
    func documentQuery() throws(Refusal) -> DocumentQuery {
        try Refusal.parsing { () throws(RequestRefusal) in try DocumentQuery(query) }
    }

    /// Answers a write: `{"id":I,"ok":true,"rev":R}`.
    func answerWritten(
        _ status: Int,
        _ id: String,
        revision: String,
        headers: AnswerHeaders = [:]
    ) {
        let output = ByteWriter()
        output.append("{\"id\":")
        CanonicalJSON.append(string: id, to: output)
        output.append(",\"ok\":true,\"rev\":")
        CanonicalJSON.append(string: revision, to: output)
        output.append("}")
        exchange.answer(json: output, status: status, headers)
    }

    // MARK: GET

    /// - Throws: `Refusal`, which is the answer; as do all procedures of routes.
    func getDocument() async throws(Refusal) {
        let query = try documentQuery()
        let id = parameter("doc")
        if let asked = query.openRevisions {
            return try await getRevisions(asked, id, query: query)
        }
        var revision = query.revision
        if query.isLatest, let named = revision {
            revision = try await database.revisions(.listed([named]), of: id, isLatest: true).first
        }
        let request = ReadRequest(
            id,
            revision,
            history: query.history,
            attachmentsSince: query.attachmentsSince,
            details: query.details
        )
        let found = try await database.read(request, for: requester)
        let hasBodies = query.attachmentsSince != nil && !found.body.attachments.isEmpty
        var headers: AnswerHeaders = ["Etag": EntityTag.quoted(found.revision.description)]
        var writer = RevisionWriter(call: self)
        switch acceptance.documentForm(hasBodies: hasBodies) {
        case .json: exchange.answer(json: await writer.json(found), headers)
        case .multipart:
            writer.compressesParts = acceptsGzippedParts
            var parts = MultipartWriter(boundary: boundary())
            headers["Content-Type"] = parts.contentType("related")
            exchange.begin(200, headers)
            try await writer.write(found, to: &parts)
            end(parts)
        case .none:
            exchange.headers.append(headers)
            throw Refusal(406, "only application/json available")
        }
    }

    /// Answers `open_revs`: a list of revisions.
    private func getRevisions(
        _ asked: OpenRevisions,
        _ id: String,
        query: DocumentQuery
    ) async throws(Refusal) {
        let revisions = try await database.revisions(asked, of: id, isLatest: query.isLatest)
        // Sync Gateway sends all contents in any case: `atts_since` only ends histories here.
        let requests = revisions.map { revision in
            ReadRequest(
                id,
                revision,
                history: query.history,
                attachmentsSince: [],
                details: query.details
            )
        }
        if acceptance.listForm == .multipart {
            try await writeParts(requests)
        } else {
            try await writeArray(requests)
        }
    }

    private func writeParts(_ requests: [ReadRequest]) async throws(Refusal) {
        let writer = RevisionWriter(call: self)
        var list = MultipartWriter(boundary: boundary())
        exchange.begin(200, ["Content-Type": list.contentType("mixed")])
        for request in requests {
            try await writable()
            switch await database.read([request], for: requester)[0] {
            case .success(let found): try await writer.writeItem(found, to: &list)
            case .failure:
                writer.writeError(to: &list) { Self.appendMissing(request.revision, to: $0) }
            }
        }
        end(list)
    }

    private func writeArray(_ requests: [ReadRequest]) async throws(Refusal) {
        let writer = RevisionWriter(call: self)
        exchange.begin(200, ["Content-Type": "application/json"])
        let output = ByteWriter()
        output.append("[\n")
        for (index, request) in requests.enumerated() {
            try await writable()
            if index > 0 { output.append(",") }
            switch await database.read([request], for: requester)[0] {
            case .success(let found):
                output.append("{\"ok\":")
                output.append(await writer.json(found))
                output.append("}")
            case .failure: Self.appendMissing(request.revision, to: output)
            }
            output.append("\n")
            exchange.write(output)
            output.removeAll()
        }
        output.append("]")
        exchange.write(output)
        exchange.end()
    }

    private static func appendMissing(_ revision: String?, to output: ByteWriter) {
        output.append("{\"missing\":")
        CanonicalJSON.append(string: revision ?? "", to: output)
        output.append("}")
    }

    // MARK: Multipart

    /// Whether the client decodes gzipped parts of a multipart.
    var acceptsGzippedParts: Bool {
        request.header("X-Accept-Part-Encoding")?.contains("gzip") ?? false
    }

    func end(_ parts: MultipartWriter) {
        let output = ByteWriter()
        parts.end(agent: request.header("User-Agent"), to: output)
        exchange.write(output)
        exchange.end()
    }
}

extension Gateway {
    /// The routes of checkpoints: documents that are not replicated.
    var localRoutes: [GatewayRoute] {
        let path = "/{db}/_local/{id}"
        return [
            route([.get], path, RouteCall.getLocal),
            route([.put], path, RouteCall.putLocal),
            route([.delete], path, RouteCall.deleteLocal),
        ]
    }
}

extension RouteCall {
    func getLocal() async throws(Refusal) {
        let id = parameter("id")
        guard let document = await database.localDocument(id) else { throw .missing }
        let text = ByteWriter()
        var writer = JSONWriter(text)
        document.write(to: &writer, id: id)
        let output = ByteWriter()
        try Refusal.parsing(text) { (text) throws(RequestRefusal) in
            try CanonicalJSON.append(text, numbers: database.dialect.numbers, to: output)
        }
        exchange.answer(json: output)
    }

    func putLocal() async throws(Refusal) {
        let id = parameter("id")
        let document = try await database.putLocal(id, try await json())
        answerWritten(201, LocalDocument.keyPrefix + id, revision: document.revision)
    }

    func deleteLocal() async throws(Refusal) {
        try await database.deleteLocal(parameter("id"), revision: query["rev"])
        exchange.answer(200)
    }
}

extension Gateway {
    /// The routes of design documents.
    var designRoutes: [GatewayRoute] {
        let path = "/{db}/_design/{ddoc}"
        return [
            route([.get], path, RouteCall.getDesign),
            route([.put], path) { (call) throws(Refusal) in
                try call.requireOwnDesign()
                throw Refusal(501, "The gateway stores no design documents")
            },
            route([.delete], path) { (call) throws(Refusal) in
                try call.requireOwnDesign()
                throw .missing
            },
        ]
    }
}

extension RouteCall {
    /// The design document with the filter of feeds by channel.
    private static let gatewayDesign = "sync_gateway"
    /// Names with this prefix are the gateway's.
    private static let gatewayPrefix = "sync_"

    /// - Throws: `Refusal` 403 for the gateway's own design documents, and for users.
    fileprivate func requireOwnDesign() throws(Refusal) {
        if !requester.isAdministrator || parameter("ddoc").hasPrefix(Self.gatewayPrefix) {
            throw Refusal(403, "forbidden")
        }
    }

    /// - Throws: `Refusal` 403 or 404.
    fileprivate func getDesign() throws(Refusal) {
        guard parameter("ddoc") == Self.gatewayDesign else {
            try requireOwnDesign()
            throw .missing
        }
        // CouchDB makes the replication's id of the filter's text, so that it changes with the sync function.
        var filter = "ok"
        if let function = database.configuration.syncFunction {
            let digest = LegacyDigest.sha1(Array(function.utf8)).map(String.init)
            filter = "[\(digest.joined(separator: " "))]"
        }
        answerObject { writer in
            writer.object("filters") { $0.member("bychannel", filter) }
        }
    }
}
