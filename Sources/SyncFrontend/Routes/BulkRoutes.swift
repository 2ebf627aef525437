internal import Bytes
internal import JSON
internal import SyncService
internal import SyncWire
internal import Syncing

/// Answers `_bulk_docs`: writes many documents.
extension RouteCall {
    func writeDocuments() async throws(Refusal) {
        try exchange.requireJSONType()
        let stream = BodyStream(exchange)
        let reader = BulkDocumentsReader()
        let batch = DocumentBatch(self)
        let start = database.updateSequence
        while let part = try await stream.next() {
            try Refusal.parsing(part) { (part) throws(RequestRefusal) in
                try reader.read(part) { batch.append($0) }
            }
            if let refusal = batch.refusal { throw refusal }
            if reader.knowsNewEdits { await batch.writeFull(isEdit: reader.newEdits) }
            try exchange.keepBody(batch.byteCount)
        }
        try Refusal.parsing { () throws(RequestRefusal) in try reader.finish() }
        database.reserveSequences(batch.documentCount, after: start)
        await batch.writeRest(isEdit: reader.newEdits)
        exchange.answer(json: batch.answer, status: 201)
    }
}

/// The documents of a `_bulk_docs` request that are read and not yet written, and the rows of its answer.
///
/// Documents are written in batches while the rest of the request arrives, as soon as `new_edits` is known.
private final class DocumentBatch {
    private enum Entry {
        case document(DocumentBody)
        case refused(id: String?, Refusal)
    }

    /// Documents of one batch: one call of the sync function's process.
    private static let documentsMax = SyncDatabase.pageMax
    private static let bytesMax = 1 << 20

    private let call: RouteCall
    private var entries: [(entry: Entry, byteCount: Int)] = []
    /// The text of what is not written.
    private(set) var byteCount = 0
    /// All documents of the request so far, without checkpoints.
    private(set) var documentCount = 0
    /// Checkpoints, which are written behind all documents.
    private var locals: [(id: String, body: JSONValue)] = []
    private let rows = ByteWriter()
    /// Why the whole request is refused: a document is no JSON.
    private(set) var refusal: Refusal?

    init(_ call: RouteCall) {
        self.call = call
        rows.append("[")
    }

    /// Adds the next document.
    func append(_ text: ByteView) {
        do {
            let body = try DocumentBody(text, numbers: call.database.dialect.numbers)
            if let id = body.own.id, LocalDocument.isID(id) { return appendLocal(id, text) }
            entries.append((.document(body), text.count))
            documentCount += 1
            byteCount += text.count
        } catch {
            guard error != .badJSON, let tree = JSONValue.parse(text) else {
                refusal = refusal ?? Refusal(error)
                return
            }
            let id = tree["_id"]?.string
            if let id, LocalDocument.isID(id) { return appendLocal(id, text) }
            entries.append((.refused(id: id, Refusal(error)), 0))
            documentCount += 1
        }
    }

    private func appendLocal(_ id: String, _ text: ByteView) {
        if let body = JSONValue.parse(text) { locals.append((id, body)) }
        byteCount += text.count
    }

    // MARK: Writing

    /// Writes all full batches.
    func writeFull(isEdit: Bool) async {
        while let count = fullCount { await write(count, isEdit: isEdit) }
    }

    /// Writes all documents, then checkpoints.
    func writeRest(isEdit: Bool) async {
        await writeFull(isEdit: isEdit)
        await write(entries.count, isEdit: isEdit)
        for (id, body) in locals {
            do {
                let name = String(id.dropFirst(LocalDocument.keyPrefix.count))
                let stored = try await call.database.putLocal(name, body)
                appendRow(id, stored.revision)
            } catch {
                appendRow(id, error)
            }
        }
        rows.append("]")
    }

    /// The rows of all documents; complete behind `writeRest`.
    var answer: ByteWriter { rows }

    /// How many of the first entries are a batch; nil if they are too few.
    private var fullCount: Int? {
        var bytes = 0
        for (index, entry) in entries.prefix(Self.documentsMax).enumerated() {
            bytes += entry.byteCount
            if bytes >= Self.bytesMax { return index + 1 }
        }
        return entries.count >= Self.documentsMax ? Self.documentsMax : nil
    }

    private func write(_ count: Int, isEdit: Bool) async {
        let batch = entries.prefix(count).map { sent($0.entry, isEdit: isEdit) }
        byteCount -= entries.prefix(count).reduce(0) { $0 + $1.byteCount }
        entries.removeFirst(count)
        let documents = batch.compactMap { try? $0.document.get() }
        var outcomes = await call.database.write(documents, by: call.requester)[...]
        for one in batch {
            switch one.document {
            case .failure(let refusal): appendRow(one.rowID, refusal)
            case .success(let document):
                switch outcomes.removeFirst() {
                case .success(let revision): appendRow(document.id, revision.description)
                case .failure(let refusal): appendRow(one.rowID, refusal)
                }
            }
        }
    }

    /// A document to write with the id that its row has if it is refused.
    private struct Sent {
        let rowID: String?
        let document: Result<SentDocument, Refusal>
    }

    private func sent(_ entry: Entry, isEdit: Bool) -> Sent {
        switch entry {
        case .refused(let id, let refusal): return Sent(rowID: id, document: .failure(refusal))
        case .document(let body):
            let id = body.own.id.flatMap { $0.isEmpty ? nil : $0 }
            if isEdit, id == nil, body.own.revision != nil {
                return Sent(rowID: nil, document: .failure(.noPreviousRevision))
            }
            let name = id ?? (isEdit ? call.database.newDocumentID() : "")
            return Sent(rowID: id, document: .success(SentDocument(name, body, isEdit: isEdit)))
        }
    }

    // MARK: Rows

    private func beginRow() {
        if rows.count > 1 { rows.append(",") }
    }

    private func appendRow(_ id: String, _ revision: String) {
        beginRow()
        ErrorAnswer.appendRow(document: id, revision: revision, to: rows)
    }

    private func appendRow(_ id: String?, _ refusal: Refusal) {
        beginRow()
        ErrorAnswer.appendRow(
            document: id,
            status: refusal.status,
            reason: refusal.reason,
            to: rows
        )
    }
}

extension Gateway {
    /// The routes of requests about many documents.
    var bulkRoutes: [GatewayRoute] {
        [
            route([.get, .post], "/{db}/_all_docs", RouteCall.listDocuments),
            route([.post], "/{db}/_bulk_docs", RouteCall.writeDocuments),
            route([.post], "/{db}/_bulk_get", RouteCall.readDocuments),
            route([.post], "/{db}/_revs_diff", RouteCall.compareRevisions),
        ]
    }
}

extension RouteCall {
    /// Answers `_revs_diff`: what a device that has certain revisions should send.
    func compareRevisions() async throws(Refusal) {
        try exchange.requireJSONType()
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
