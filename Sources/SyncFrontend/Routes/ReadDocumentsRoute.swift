internal import Bytes
internal import SyncService
internal import SyncWire

/// Answers `_bulk_get`: revisions of many documents.
extension RouteCall {
    /// One document of the request, with the revisions that it means.
    private struct Item {
        let asked: BulkGetRequest.Item
        let results: [Result<ReadRevision, Refusal>]

        func append(_ refusal: Refusal, to output: ByteWriter) {
            ErrorAnswer.appendRow(
                document: asked.id ?? "",
                revision: asked.revision,
                status: refusal.status,
                reason: refusal.reason,
                to: output
            )
        }
    }

    func readDocuments() async throws(Refusal) {
        try exchange.requireJSONType()
        let form = acceptance.listForm
        if form == .none { throw Refusal(RequestRefusal.multipartOnly) }
        let text = try await body()
        let asked = try Refusal.parsing(text) { (text) throws(RequestRefusal) in
            try BulkGetRequest(text).items
        }
        let query = try documentQuery()
        if form == .multipart {
            try await writeParts(asked, query)
        } else {
            try await writeResults(asked, query)
        }
    }

    // MARK: Multipart

    private func writeParts(
        _ asked: [BulkGetRequest.Item],
        _ query: DocumentQuery
    ) async throws(Refusal) {
        let agent = ClientAgent(request.header("User-Agent"))
        var writer = RevisionWriter(call: self)
        // A client that decodes whole answers gets no compressed parts within them.
        let acceptsGzip = request.header("Accept-Encoding")?.contains("gzip") ?? false
        writer.compressesParts = acceptsGzippedParts && (!acceptsGzip || !agent.decodesBulkGet)
        var list = MultipartWriter(boundary: boundary())
        exchange.begin(
            200,
            ["Content-Type": list.contentType("mixed")],
            mayCompress: agent.decodesBulkGet
        )
        for page in asked.pages {
            for item in await read(Array(page), query) {
                try await writable()
                for result in item.results {
                    switch result {
                    case .success(let found): try await writer.writeItem(found, to: &list)
                    case .failure(let refusal):
                        writer.writeError(to: &list) { item.append(refusal, to: $0) }
                    }
                }
            }
        }
        end(list)
    }

    // MARK: JSON

    /// Writes CouchDB's form: `{"results":[{"id":I,"docs":[{"ok":D}]}]}`.
    private func writeResults(
        _ asked: [BulkGetRequest.Item],
        _ query: DocumentQuery
    ) async throws(Refusal) {
        exchange.begin(200, ["Content-Type": "application/json"])
        let writer = RevisionWriter(call: self)
        let output = ByteWriter()
        output.append("{\"results\":[")
        var isFirst = true
        for page in asked.pages {
            for item in await read(Array(page), query) {
                try await writable()
                if !isFirst { output.append(",") }
                isFirst = false
                output.append("{\"id\":")
                CanonicalJSON.append(string: item.asked.id ?? "", to: output)
                output.append(",\"docs\":[")
                for (index, result) in item.results.enumerated() {
                    if index > 0 { output.append(",") }
                    await append(result, of: item, to: output, writer)
                }
                output.append("]}")
                exchange.write(output)
                output.removeAll()
            }
        }
        output.append("]}")
        exchange.write(output)
        exchange.end()
    }

    private func append(
        _ result: Result<ReadRevision, Refusal>,
        of item: Item,
        to output: ByteWriter,
        _ writer: RevisionWriter
    ) async {
        switch result {
        case .success(let found):
            output.append("{\"ok\":")
            output.append(await writer.json(found))
        case .failure(let refusal):
            output.append("{\"error\":")
            item.append(refusal, to: output)
        }
        output.append("}")
    }

    // MARK: Reading

    private func read(_ asked: [BulkGetRequest.Item], _ query: DocumentQuery) async -> [Item] {
        var requests: [ReadRequest] = []
        var counts: [Int] = []
        for item in asked {
            guard let id = item.id, item.refusal == nil else {
                counts.append(0)
                continue
            }
            let revisions = await revisions(of: item, id, query)
            counts.append(revisions.count)
            for revision in revisions {
                requests.append(request(item, id, revision: revision, query: query))
            }
        }
        var results = await database.read(requests, for: requester)[...]
        return zip(asked, counts).map { item, count in
            if let refusal = item.refusal {
                return Item(asked: item, results: [.failure(Refusal(refusal))])
            }
            let own = Array(results.prefix(count))
            results = results.dropFirst(count)
            return Item(asked: item, results: own)
        }
    }

    /// The revision of an item, or with `latest` those that descend from it; nil for the winner.
    private func revisions(
        of item: BulkGetRequest.Item,
        _ id: String,
        _ query: DocumentQuery
    ) async -> [String?] {
        guard query.isLatest, let revision = item.revision else { return [item.revision] }
        let asked = OpenRevisions.listed([revision])
        guard let found = try? await database.revisions(asked, of: id, isLatest: true) else {
            return [revision]
        }
        return found
    }

    private func request(
        _ item: BulkGetRequest.Item,
        _ id: String,
        revision: String?,
        query: DocumentQuery
    ) -> ReadRequest {
        var history: DocumentQuery.HistoryOptions?
        let limit = item.revisionsLimit ?? query.history?.limit
        if query.history != nil, limit != 0 {
            let known = item.revisionsFrom ?? item.attachmentsSince ?? []
            history = DocumentQuery.HistoryOptions(limit: limit, known: Set(known))
        }
        return ReadRequest(
            id,
            revision,
            history: history,
            attachmentsSince: query.attachmentsSince == nil ? nil : item.attachmentsSince ?? [],
            details: query.details
        )
    }
}

/// The abilities of a client by its `User-Agent`.
struct ClientAgent {
    /// Whether the client decodes a gzipped answer of `_bulk_get`: Couchbase Lite from 1.2 on.
    let decodesBulkGet: Bool

    init(_ value: String?) {
        let name = "CouchbaseLite/"
        guard let value, let found = value.firstRange(of: name) else {
            decodesBulkGet = false
            return
        }
        let numbers = value[found.upperBound...].split(
            separator: ".",
            omittingEmptySubsequences: false
        )
        let parts = numbers.prefix(2).map { part in Int(part.prefix { $0.isNumber }) ?? 0 }
        let (major, minor) = (parts.first ?? 0, parts.count > 1 ? parts[1] : 0)
        decodesBulkGet = (major, minor) >= (1, 2)
    }
}
