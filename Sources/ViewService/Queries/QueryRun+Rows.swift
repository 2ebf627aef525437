internal import Bytes
internal import Indexing
internal import JSON
internal import Vocabulary

/// The text of the answer, from merged rows.
extension QueryRun {
    /// The text, and the rows on the way to it.
    struct Answer {
        let output: ByteWriter
        var reply: ViewReply
        var form = RowForm()
        let scratch = ByteWriter()
        /// The run's own errors, each sentence once.
        var errors: [String] = []
        var isPartial = false
        /// Rows that were merged and lack a document or a reduction, in order.
        var gathered: [Gathered] = []
        /// Bytes of partial values in `gathered` that must be reduced.
        var gatheredBytes = 0
        /// Complete rows, the next one last.
        var ready: [Gathered] = []
        /// Whether documents or reductions of `gathered` were requested.
        var isFetching = false

        init() {
            output = ByteWriter()
            reply = ViewReply(output)
        }
    }

    /// The parts of each row in the answer, as the plan of the run's version states.
    ///
    /// A row must not cost a copy of the whole version.
    struct RowForm {
        var isGrouped = false
        var includesDocuments = false
        var isDebug = false

        init() {}

        init(_ plan: QueryPlan) {
            isGrouped = plan.merge.isGrouped
            includesDocuments = plan.includesDocuments
            isDebug = plan.isDebug
        }
    }

    /// A row, or the partial values of a group.
    struct Gathered {
        let rows: [MergedRow]
        /// Of a group with several partial values.
        var value: [UInt8]?
        var document: IncludedDocument?
    }

    // MARK: Beginning and end

    func start(answerOf totalRows: UInt64) {
        answer.form = RowForm(version.plan)
        let rows = answer.form.isGrouped ? nil : totalRows
        guard answer.form.isDebug else { return answer.reply.start(totalRows: rows) }
        debugInfo().withUnsafeBytes {
            answer.reply.start(totalRows: rows, debugInfo: ByteView($0))
        }
    }

    /// The newest request to each node, as a JSON object for `debug_info`.
    private func debugInfo() -> [UInt8] {
        JSONWriter.text { json in
            json.object { json in
                json.object("main") { json in
                    for dispatch in links.dispatches {
                        let choice = query.choice(dispatch.use)
                        json.object(name(of: dispatch.node)) { json in
                            json.member("attempt", dispatch.attempt)
                            json.member("map_revision", dispatch.mapRevision)
                            json.member("partitions", dispatch.vBuckets.count)
                            json.member("signature", choice.wanted.description)
                        }
                    }
                }
            }
        }
    }

    /// Writes the end, with an entry for each failure.
    func end(with failures: [QueryFailure]) {
        var errors: [(from: String, reason: String)] = failures.map { failure in
            (failure.node.map(address) ?? "local", failure.reason)
        }
        errors += answer.errors.map { ("local", $0) }
        answer.isPartial = !errors.isEmpty
        answer.reply.finish(errors: errors)
    }

    /// The node in the form of Couchbase's errors.
    private func address(of node: NodeNumber) -> String {
        let stale =
            switch version.plan.freshness {
            case .any: "ok"
            case .updateAfter: "update_after"
            case .current: "false"
            }
        return "http://\(name(of: node))/_view_merge/?stale=\(stale)"
    }

    // MARK: Rows

    /// Writes rows until a part is full, or until something must arrive first.
    func writeRows() {
        while stage == .rows, !answer.isFetching, answer.output.count < QueryRun.partBytes {
            if let row = answer.ready.popLast() {
                write(row)
                continue
            }
            switch coordination.next() {
            case .row(let row): add(row)
            case .group(let rows): add(group: rows)
            case .needsMore:
                guard answer.gathered.isEmpty else {
                    fetch()
                    continue
                }
                return addCredits()
            case .done, nil: answer.gathered.isEmpty ? finish() : fetch()
            }
        }
        addCredits()
    }

    private func add(_ row: MergedRow) {
        guard answer.form.includesDocuments else {
            let isWritten = row.withRow { write($0, of: row, nil) }
            if !isWritten { reject(row) }
            return
        }
        answer.gathered.append(Gathered(rows: [row]))
        if answer.gathered.count >= QueryRun.documentsMax { fetch() }
    }

    private func add(group rows: [MergedRow]) {
        switch version.reduction {
        case .none: preconditionFailure("a query with groups has a reduction")
        case .builtin(let reduction): writeGroup(rows, by: reduction)
        case .custom:
            let group = Gathered(rows: rows)
            if rows.count == 1, answer.gathered.isEmpty { return write(group) }
            answer.gathered.append(group)
            if rows.count > 1 {
                answer.gatheredBytes += rows.reduce(0) { $0 + $1.withRow(\.value.count) }
            }
            if answer.gathered.count >= QueryRun.groupsMax
                || answer.gatheredBytes >= QueryRun.groupBytesMax
            {
                fetch()
            }
        }
    }

    /// Requests what the gathered rows lack.
    private func fetch() {
        if answer.form.isGrouped { fetchReductions() } else { fetchDocuments() }
    }

    /// The gathered rows are complete, and are written.
    func complete(_ rows: [Gathered]) {
        answer.isFetching = false
        answer.gathered = []
        answer.gatheredBytes = 0
        answer.ready = rows.reversed()
    }

    // MARK: Writing

    private func write(_ gathered: Gathered) {
        guard let row = gathered.rows.first else { return }
        let isWritten = row.withRow { view in
            guard answer.form.isGrouped else {
                return write(view, of: row, gathered.document)
            }
            guard let value = gathered.value else {
                return answer.reply.appendReduction(group: view.key, value: view.value)
            }
            return value.withUnsafeBytes {
                answer.reply.appendReduction(group: view.key, value: ByteView($0))
            }
        }
        // All nodes of a group sent its key.
        if !isWritten { for row in gathered.rows { reject(row) } }
    }

    private func write(
        _ view: RowBatch.Row,
        of row: MergedRow,
        _ document: IncludedDocument?
    ) -> Bool {
        var origin: ViewReply.RowOrigin?
        if answer.form.isDebug, let node = coordination.node(of: row) {
            origin = ViewReply.RowOrigin(vBucket: view.vBucket, node: name(of: node))
        }
        guard answer.form.includesDocuments else {
            return answer.reply.appendRow(view, origin: origin)
        }
        guard let document else {
            return answer.reply.appendRow(view, document: .missing, origin: origin)
        }
        return document.meta.withUnsafeBytes { meta in
            document.body.withUnsafeBytes { body in
                answer.reply.appendRow(
                    view,
                    document: .found(meta: ByteView(meta), body: ByteView(body)),
                    origin: origin
                )
            }
        }
    }

    /// Ends the part of the node that sent a malformed row: its other rows are as doubtful.
    func reject(_ row: MergedRow) {
        perform(coordination.reject(row, because: "A row of it is malformed."))
    }
}
