internal import Bytes
internal import Indexing
internal import JSON
internal import Seams

/// The documents of `include_docs`.
///
/// They are read when their rows are merged, so only those of rows in the answer are read; a document
/// may be newer than its row.
extension QueryRun {
    /// Documents that are read at once.
    static let documentsMax = 64
    /// Bytes of documents that the run should have in memory: fewer large ones are read at once.
    static let documentBytesMax = 8 << 20

    /// Reads the documents of the gathered rows, each once.
    func fetchDocuments() {
        let ids = answer.gathered.map { QueryRun.documentID(of: $0) }
        // In the order of rows, so that a seed of the simulator determines the order of reads.
        var seen: Set<[UInt8]> = []
        let wanted = ids.compactMap { $0 }.filter { seen.insert($0).inserted }
        answer.isFetching = true
        let (documents, bucket) = (surroundings.ports.documents, query.bucket.name)
        links.reading = LaneExecutor(surroundings.lane).spawn { [self] in
            let found = await QueryRun.read(wanted, of: documents, inBucket: bucket)
            step { $0.receive(found, ids) }
        }
    }

    private static func read(
        _ ids: [[UInt8]],
        of documents: any IncludedDocuments,
        inBucket bucket: String
    ) async -> [[UInt8]: IncludedDocument] {
        await withTaskGroup(of: ([UInt8], IncludedDocument?).self) { group in
            for id in ids {
                group.addTask {  // tidy:allow a child of a task that is on the lane
                    (id, await documents.document(id, inBucket: bucket))
                }
            }
            var found: [[UInt8]: IncludedDocument] = [:]
            for await (id, document) in group { found[id] = document }
            return found
        }
    }

    private func receive(_ found: [[UInt8]: IncludedDocument], _ ids: [[UInt8]?]) {
        links.reading = nil
        guard stage == .rows else { return }
        var gathered = answer.gathered
        for (place, id) in ids.enumerated() { gathered[place].document = id.flatMap { found[$0] } }
        let bytes = found.values.reduce(0) { $0 + $1.body.count + $1.meta.count }
        let average = max(bytes / max(found.count, 1), 1)
        answer.documentsMax = min(
            max(QueryRun.documentBytesMax / average, 1),
            QueryRun.documentsMax
        )
        complete(gathered)
        proceed()
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
