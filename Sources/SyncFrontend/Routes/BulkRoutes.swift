internal import Bytes
internal import JSON
internal import SyncService
internal import SyncWire

extension Gateway {
    /// The routes of requests about many documents.
    var bulkRoutes: [GatewayRoute] {
        [
            route([.get, .post], "/{db}/_all_docs") { (call) throws(Refusal) in
                try await call.listDocuments()
            },
            route([.post], "/{db}/_bulk_docs") { (call) throws(Refusal) in
                try await call.writeDocuments()
            },
            route([.post], "/{db}/_bulk_get") { (call) throws(Refusal) in
                try await call.readDocuments()
            },
            route([.post], "/{db}/_revs_diff") { (call) throws(Refusal) in
                try await call.compareRevisions()
            },
        ]
    }
}

extension RouteCall {
    /// Answers `_revs_diff`: what a device that has certain revisions should send.
    func compareRevisions() async throws(Refusal) {
        try requireJSON()
        let body = try await body()
        let asked = try Refusal.parsing(body) { (text) throws(RequestRefusal) in
            try RevisionsDiff(text).documents
        }
        exchange.begin(200, ["Content-Type": database.dialect.unnamedType])
        let output = ByteWriter()
        var writer = RevisionsDiff.Writer(output)
        for page in asked.pages {
            try await writable()
            let lacks = await database.difference(to: Array(page), for: requester)
            for (document, lack) in zip(page, lacks) {
                guard let lack else { continue }
                writer.append(document.id, missing: lack.missing, ancestors: lack.ancestors)
            }
            exchange.write(output)
            output.removeAll()
        }
        writer.end()
        exchange.write(output)
        exchange.end()
    }
}

extension Collection where Index == Int {
    /// The elements in parts that are read at one time.
    var pages: [SubSequence] {
        stride(from: startIndex, to: endIndex, by: SyncDatabase.pageMax).map { start in
            self[start..<Swift.min(start + SyncDatabase.pageMax, endIndex)]
        }
    }
}
