internal import Bytes
internal import Revisions
internal import SyncService
internal import SyncWire

/// Answers `_all_docs`.
extension RouteCall {
    func listDocuments() async throws(Refusal) {
        let isPost = request.method == "POST"
        if isPost { try exchange.requireJSONType() }
        let keys = isPost ? try await body() : ByteWriter(capacity: 0)
        let asked = try Refusal.parsing(keys) { (keys) throws(RequestRefusal) in
            try AllDocumentsRequest(query: query, body: isPost ? keys : nil)
        }
        let sequence = database.announcedSequence
        exchange.begin(200, ["Content-Type": "application/json"])
        let list = DocumentList(self, asked)
        switch asked.selection {
        case .keys(let keys): try await list.write(keys)
        case .range(let range): try await list.write(range)
        }
        list.end(updateSequence: sequence)
    }
}

/// Writes rows of `_all_docs`, a page at a time.
private final class DocumentList {
    private let call: RouteCall
    private let content: AllDocumentsRequest.Content
    private let writer: RevisionWriter
    private let output = ByteWriter()
    private var rows: AllDocumentsWriter
    /// Rows that may follow.
    private var left: Int

    init(_ call: RouteCall, _ asked: AllDocumentsRequest) {
        self.call = call
        content = asked.content
        writer = RevisionWriter(call: call)
        rows = AllDocumentsWriter(output)
        // For Sync Gateway, 0 is no bound.
        left = asked.limit.flatMap { $0 == 0 ? nil : $0 } ?? .max
    }

    /// Writes a row for each id.
    ///
    /// - Throws: `Refusal` if the client is gone.
    func write(_ keys: [String]) async throws(Refusal) {
        for page in keys.prefix(left).pages {
            try await call.writable()
            let found = await call.database.list(Array(page), for: call.requester)
            for (id, result) in zip(page, found) {
                switch result {
                case .success(let listed): await append(listed, hasSequence: false)
                case .failure(let refusal): rows.append(missing: id, status: refusal.status)
                }
            }
            flush()
        }
    }

    /// Writes the rows of a range.
    ///
    /// - Throws: `Refusal` if the client is gone.
    func write(_ range: AllDocumentsRequest.Range) async throws(Refusal) {
        var position: SyncDatabase.ListPosition? = range.position
        var skipped = 0
        while let next = position, left > 0 {
            try await call.writable()
            let page = await call.database.list(next, for: call.requester)
            position = page.next
            for listed in page.documents {
                guard range.reaches(listed.id) else {
                    position = nil
                    break
                }
                guard left > 0 else { break }
                if !range.includesEnd, listed.id == range.end { continue }
                if skipped < range.skip {
                    skipped += 1
                    continue
                }
                left -= 1
                await append(listed, hasSequence: content.hasSequences)
            }
            flush()
        }
    }

    func end(updateSequence: UInt64) {
        rows.end(updateSequence: updateSequence)
        flush()
        call.exchange.end()
    }

    private func flush() {
        call.exchange.write(output)
        output.removeAll()
    }

    private func append(_ listed: SyncDatabase.ListedDocument, hasSequence: Bool) async {
        var row = AllDocumentsWriter.Row(id: listed.id, revision: listed.revision.description)
        if content.hasChannels { row.channels = listed.channels }
        if content.hasAccess, call.requester.isAdministrator { row.access = listed.access }
        if hasSequence { row.sequence = listed.document.metadata.sequence }
        if content.hasDocuments {
            let request = ReadRequest(
                listed.id,
                nil,
                history: content.hasHistories ? DocumentQuery.HistoryOptions() : nil,
                attachmentsSince: content.hasAttachments ? [] : nil,
                details: content.hasConflicts ? .conflicts : []
            )
            if let found = await call.database.winner(of: listed, request, for: call.requester) {
                row.document = await writer.json(found).bytes
            }
        }
        rows.append(row)
    }
}

extension AllDocumentsRequest.Range {
    /// Where the list begins.
    fileprivate var position: SyncDatabase.ListPosition {
        let first = start.map { Array($0.utf8) }
        // No id is between an id and the same with a zero byte behind it.
        return isDescending ? .below(first.map { $0 + [0] }) : .from(first ?? [])
    }

    /// Whether an id is not behind the end.
    fileprivate func reaches(_ id: String) -> Bool {
        guard let end else { return true }
        let (one, other) = isDescending ? (id, end) : (end, id)
        return !one.utf8.lexicographicallyPrecedes(other.utf8)
    }
}
