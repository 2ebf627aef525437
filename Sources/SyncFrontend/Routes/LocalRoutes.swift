internal import Bytes
internal import JSON
internal import SyncService
internal import SyncWire
internal import Syncing

extension Gateway {
    /// The routes of checkpoints: documents that are not replicated.
    var localRoutes: [GatewayRoute] {
        let path = "/{db}/_local/{id}"
        return [
            route([.get], path) { (call) throws(Refusal) in try await call.getLocal() },
            route([.put], path) { (call) throws(Refusal) in try await call.putLocal() },
            route([.delete], path) { (call) throws(Refusal) in try await call.deleteLocal() },
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
