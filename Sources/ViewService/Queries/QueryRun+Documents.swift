internal import Bytes
internal import Indexing
internal import JSON
internal import Seams

/// The documents of `include_docs`.
///
/// They are read when their rows are merged, so only those of rows in the answer are read; a document
/// may be newer than its row.
extension QueryRun {
    /// Rows whose documents are read in one round, each document once.
    static let documentsMax = 64

    /// Reads the documents of the gathered rows; if they are large, of the first ones.
    func fetchDocuments() {
        let ids = answer.gathered.map { QueryRun.documentID(of: $0) }
        // In the order of rows, so that a seed of the simulator determines the order of reads.
        var seen: Set<[UInt8]> = []
        let wanted = ids.compactMap { $0 }.filter { seen.insert($0).inserted }
        answer.isFetching = true
        let (documents, bucket) = (dependencies.ports.documents, query.bucket.name)
        links.reading = LaneExecutor(dependencies.lane).spawn { [self] in
            let found = await QueryRun.read(wanted, of: documents, inBucket: bucket)
            step { $0.receive(found, ids) }
        }
    }

    /// The outcomes of the first documents.
    private static func read(
        _ ids: [[UInt8]],
        of documents: any DocumentLookup,
        inBucket bucket: String
    ) async -> [[UInt8]: IncludedDocumentOutcome] {
        await withTaskGroup(of: ([UInt8], IncludedDocumentOutcome).self) { group in
            var reads = DocumentReads(count: ids.count)
            var found: [[UInt8]: IncludedDocumentOutcome] = [:]
            while true {
                while let place = reads.begin() {
                    let id = ids[place]
                    group.addTask {  // tidy:allow a child of a task that is on the lane
                        (id, await documents.document(id, inBucket: bucket))
                    }
                }
                guard let (id, outcome) = await group.next() else { return found }
                reads.end(bytes: outcome.byteCount)
                found[id] = outcome
            }
        }
    }

    private func receive(_ found: [[UInt8]: IncludedDocumentOutcome], _ ids: [[UInt8]?]) {
        links.reading = nil
        guard stage == .rows else { return }
        var complete = answer.gathered
        // The documents of later rows are read in the next round.
        let end = ids.firstIndex { id in id.map { found[$0] == nil } ?? false } ?? ids.count
        let rest = Array(complete[end...])
        complete.removeSubrange(end...)
        var failure: (place: Int, reason: String)?
        for place in complete.indices {
            switch ids[place].flatMap({ found[$0] }) {
            case .found(let document): complete[place].document = document
            case .missing, nil: break
            case .failed(let reason): failure = failure ?? (place, reason)
            }
        }
        let isStopped = version.plan.merge.failurePolicy == .stopRows
        if let failure { recordUnreadDocument(failure.reason) }
        if isStopped, let failure {
            self.complete(Array(complete[..<failure.place]))
            endRows()
        } else {
            self.complete(complete)
            answer.gathered = rest
        }
        proceed()
    }

    /// A document that could not be read must not look like one that was deleted.
    private func recordUnreadDocument(_ reason: String) {
        note(
            "Documents of the rows could not be read; such a row has \"doc\":null. The cause of the"
                + " first: \(reason)"
        )
    }

    /// Nil if the row is malformed, which is noticed when it is written.
    private static func documentID(of gathered: Gathered) -> [UInt8]? {
        gathered.rows.first?.withRow { row in
            let id = ByteWriter()
            guard let key = RowKey(row.key), key.appendID(to: id) else { return nil }
            return id.bytes
        }
    }
}

extension IncludedDocumentOutcome {
    /// Bytes in memory.
    fileprivate var byteCount: Int {
        switch self {
        case .found(let document): document.meta.count + document.body.count
        case .missing, .failed: 0
        }
    }
}

/// Decides how many documents of `include_docs` are read at a time.
///
/// The size of a document is known only after it was read. So few are read at once, and none is begun
/// once those that were read have enough bytes: the rows behind them are read in the next round.
package struct DocumentReads {
    /// Documents that are read at once; each may have 20 MiB.
    package static let readsMax = 4
    /// Bytes of a round after which no further read begins.
    package static let bytesMax = 8 << 20

    /// The documents that the round may read.
    private let count: Int
    package private(set) var bytes = 0
    package private(set) var running = 0
    /// The documents whose reads were begun: the first ones.
    package private(set) var begun = 0

    package init(count: Int) {
        self.count = count
    }

    /// Begins the next read.
    ///
    /// - Returns: The place of its document; nil if no read may begin now.
    package mutating func begin() -> Int? {
        guard begun < count, running < DocumentReads.readsMax, bytes < DocumentReads.bytesMax else {
            return nil
        }
        running += 1
        defer { begun += 1 }
        return begun
    }

    /// A read has ended with so many bytes.
    package mutating func end(bytes: Int) {
        running -= 1
        self.bytes += bytes
    }
}
