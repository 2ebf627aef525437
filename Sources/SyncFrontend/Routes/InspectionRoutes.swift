internal import Bytes
internal import JSON
internal import Revisions
internal import SyncService
internal import SyncWire
internal import Syncing

/// Shows administrators what is stored of documents and channels, and removes documents.
extension Gateway {
    package var inspectionRoutes: [GatewayRoute] {
        [
            administrationRoute([.get], "_raw/{doc}", RouteCall.answerRaw),
            administrationRoute([.get], "_revtree/{doc}") { call async throws(Refusal) in
                let tree = try await call.storedDocument().metadata.tree
                call.exchange.answer("text/plain; charset=UTF-8", tree.graphviz)
            },
            administrationRoute([.get], "_dumpchannel/{channel}", RouteCall.dumpChannel),
            administrationRoute([.post], "_purge", RouteCall.purge),
        ]
    }
}

extension RouteCall {
    /// - Throws: `Refusal` 404.
    fileprivate func storedDocument() async throws(Refusal) -> StoredDocument {
        let id = Array(parameter("doc").utf8)
        guard let document = await database.stores.reads.documents([id])[0] else { throw .missing }
        return document
    }

    /// The document with its metadata, as Sync Gateway stores it in a bucket.
    ///
    /// - Throws: `Refusal` 404.
    fileprivate func answerRaw() async throws(Refusal) {
        let document = try await storedDocument()
        let hasBody = query["include_doc"] != "false"
        var content = DocumentContent.empty
        if hasBody, !document.body.isEmpty { content = DocumentContent(canonical: document.body) }
        let output = ByteWriter()
        content.append(to: output) { output in
            if hasBody, !document.metadata.attachments.isEmpty {
                output.append("\"_attachments\":")
                let attachments = StoredAttachment.json(document.metadata.attachments)
                output.append(CanonicalJSON.text(of: attachments))
                output.append(",")
            }
            if document.metadata.tree.winner?.isDeleted == true, hasBody {
                output.append("\"_deleted\":true,")
            }
            output.append("\"_sync\":")
            let sync = JSONWriter.text {
                document.metadata.writeJSON(to: &$0, expires: document.expires)
            }
            output.append(sync)
            return true
        }
        exchange.answer(json: output)
    }

    /// A table of the rows of a channel.
    ///
    /// - Throws: `Refusal` 404 if the channel has no rows after `since`.
    fileprivate func dumpChannel() async throws(Refusal) {
        guard let name = ChannelName(parameter("channel")) else { throw .noChannel }
        let scope = FeedScope(administrator: database.dialect, filter: [name])
        var request = FeedRequest(
            since: SequenceToken(query.integer("since").flatMap { UInt64(exactly: $0) } ?? 0),
            through: database.updateSequence,
            limit: ChangesFeed.rowsMax
        )
        var page = await database.stores.channels.page(request, of: scope, documents: nil)
        guard let first = page.rows.first else { throw .noChannel }
        let title = "/\(escaped(database.name)): “\(escaped(parameter("channel")))” Channel"
        exchange.begin(200, ["Content-Type": "text/html; charset=\"UTF-8\""])
        let output = ByteWriter()
        output.append(
            text: "<!DOCTYPE html><html><head><title>\(title)</title></head><body>\n"
                + "\t\t<h1>\(title)</h1><code>\n"
                + "\t\t<p>Since = \(first.position.resumption.sequence - 1)</p>\n"
                + "\t\t<table border=1>\n"
                + "\t\t\t<tr><th>Seq</th><th>Doc</th><th>Rev</th><th>Flags</th></tr>\n"
        )
        while true {
            for row in page.rows {
                let revision = row.revisions.first.map { $0.description } ?? ""
                let id = String(decoding: row.document, as: UTF8.self)
                output.append(
                    text: "\t<tr><td>\(row.position)</td><td>\(escaped(id))</td>"
                        + "<td>\(escaped(revision))</td><td>\(row.logFlags)</td></tr>\n"
                )
            }
            output.withView { exchange.write($0) }
            output.removeAll()
            guard page.isLimited, !exchange.isClosed else { break }
            try await writable()
            request.since = page.next
            page = await database.stores.channels.page(request, of: scope, documents: nil)
        }
        output.append("</table>\n</code></html></body>")
        output.withView { exchange.write($0) }
        exchange.end()
    }

    /// As Go's `html.EscapeString`.
    private func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&#34;"
            case "'": escaped += "&#39;"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    /// Removes documents without a trace: those whose list of revisions is `["*"]`.
    ///
    /// - Throws: `Refusal` 400.
    fileprivate func purge() async throws(Refusal) {
        let body = try? await json()
        guard let members = body?.members else {
            throw Refusal(400, "_purge document ID's must be passed as a JSON")
        }
        let ids = members.filter { $0.value == .array([.string("*")]) }.map(\.name)
        let output = ByteWriter()
        output.append("{\"purged\":{\r\n")
        for (index, id) in await database.purge(ids).enumerated() {
            if index > 0 { output.append(",") }
            CanonicalJSON.append(string: id, to: output)
            output.append(" : [\"*\"]\n")
        }
        output.append("}\n}\n")
        exchange.begin(
            200,
            [
                "Cache-Control": "private, max-age=0, no-cache, no-store",
                "Content-Type": "application/json",
            ]
        )
        exchange.write(output)
        exchange.end()
    }
}

extension Refusal {
    fileprivate static let noChannel = Refusal(404, "no such channel")
}

extension FeedRow {
    /// The bits of Sync Gateway's log in eight binary digits: deleted, removed, hidden, conflict, branched.
    fileprivate var logFlags: String {
        let bits =
            (isDeleted ? 1 : 0) | (isRemoval || !removed.isEmpty ? 2 : 0)
            | (flags.contains(.hidden) ? 4 : 0) | (flags.contains(.conflict) ? 8 : 0)
            | (needsLeaves ? 16 : 0)
        let digits = String(bits, radix: 2)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }
}

extension RevisionTree {
    /// The tree as a graph of Graphviz, an edge from each revision to those that replace it.
    fileprivate var graphviz: String {
        var text = "digraph graphname{"
        var seen: Set<RevisionID> = []
        for leaf in leaves {
            var node = leaf
            while seen.insert(node.id).inserted {
                let edge = "\"\(node.parent?.description ?? "")\" -> \"\(node.id)\""
                text +=
                    node.isDeleted
                    ? "\"\(node.id)\" [fontcolor=red];\(edge) [label=\"Tombstone\", fontcolor=red];"
                    : "\(edge); "
                guard let parent = node.parent.flatMap({ self[$0] }), parent.parent != nil else {
                    break
                }
                node = parent
            }
        }
        return text + "}"
    }
}
