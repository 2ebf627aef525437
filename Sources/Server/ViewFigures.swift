internal import ClusterService
internal import ViewService

/// Statistics of a node's indexes, for the other nodes and the samples of buckets.
extension ViewStatistics {
    init(_ reading: ViewReading) {
        self.init()
        // Reports are sorted by bucket.
        for report in reading.indexes where !report.bucketName.isEmpty {
            if buckets.last?.name != report.bucketName {
                var bucket = Bucket(name: report.bucketName)
                bucket.queries = reading.queries[report.bucket] ?? 0
                buckets.append(bucket)
            }
            buckets[buckets.count - 1].add(report)
        }
    }
}

extension ViewStatistics.Bucket {
    fileprivate mutating func add(_ report: IndexReport) {
        diskUsed += report.diskBytes
        dataUsed += report.usedBytes
        // An index that is not open, or has stopped, is not being built.
        for name in Set(report.views.map(\.designDocument)).sorted() {
            let known = designDocuments.firstIndex { $0.name == name }
            if known == nil { designDocuments.append(ViewStatistics.DesignDocument(name: name)) }
            let place = known ?? designDocuments.count - 1
            let waits = report.isBuilding && report.status.awaitsBuild
            let runs = report.isBuilding && !waits
            let ran = designDocuments[place].isBuilding && !designDocuments[place].awaitsBuild
            designDocuments[place].isBuilding =
                designDocuments[place].isBuilding || report.isBuilding
            designDocuments[place].awaitsBuild =
                !runs && !ran && (waits || designDocuments[place].awaitsBuild)
            designDocuments[place].copied &+= report.status.copied
            designDocuments[place].toCopy &+= report.status.toCopy
            designDocuments[place].changesDone &+= report.status.changesDone
            designDocuments[place].changesTotal &+= report.status.changesTotal
        }
    }
}
