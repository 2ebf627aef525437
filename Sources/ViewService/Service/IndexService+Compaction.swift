internal import Bytes
internal import Indexing
internal import Seams

/// Compaction of the indexes of a design document on this node.
extension IndexService {
    /// Begins to compact the files of the document's indexes; those that are being compacted continue.
    ///
    /// Other documents of the bucket may share them. The work continues in the background.
    ///
    /// - Parameters:
    ///   - designDocument: Without `_design/`.
    ///   - uuid: The bucket.
    /// - Returns: Whether the node has the document and all of its indexes are open.
    package func compact(_ designDocument: String, ofBucket uuid: String) -> Bool {
        forEachIndex(of: designDocument, uuid) { $0.compact() }
    }

    /// Aborts compactions that are still copying.
    ///
    /// - Returns: As `compact`.
    package func cancelCompaction(_ designDocument: String, ofBucket uuid: String) -> Bool {
        forEachIndex(of: designDocument, uuid) { $0.cancelCompaction() }
    }

    // MARK: Without a request

    /// Begins to compact the index that needs it most, if there is one.
    func compactNext(of reports: [IndexReport]) {
        let threshold = newest.withLock { $0.terms.compaction }
        let candidates = reports.map(CompactionPolicy.Candidate.init)
        guard let place = CompactionPolicy.next(candidates, threshold) else { return }
        let report = reports[place]
        let name = IndexName(bucket: report.bucket, signature: report.signature)
        let unused = report.fileBytes - min(report.usedBytes, report.fileBytes)
        _ = keeper[name]?.use { [trace = environment.trace] index in
            trace.info(
                "views",
                "Index \(index.name) is compacted: \(unused) of \(report.fileBytes) bytes of its file "
                    + "are unused"
            )
            index.compact()
        }
    }

    private func forEachIndex(
        of designDocument: String,
        _ uuid: String,
        _ body: @escaping @Sendable (ViewIndex) -> Void
    ) -> Bool {
        guard let views = followed.withLock({ $0.buckets[uuid]?.views[designDocument] }) else {
            return false
        }
        var isComplete = true
        for signature in Set(views.values.map(\.index)) {
            let running = keeper[IndexName(bucket: uuid, signature: signature)]
            if running?.use(body) != true { isComplete = false }
        }
        return isComplete
    }
}

extension CompactionPolicy.Candidate {
    fileprivate init(_ report: IndexReport) {
        self.init(
            fileBytes: report.fileBytes,
            usedBytes: report.usedBytes,
            isAtRest: report.isOpen && report.fault == nil && report.status.isComplete,
            isCompacting: report.status.isCompacting
        )
    }
}
