internal import Bytes

/// The indexes of a node's views, sent to every other node with its statistics while there are any.
///
/// - No decision depends on them, as on `NodeStatistics`.
package struct ViewStatistics: Hashable, Sendable {
    package struct Bucket: Hashable, Sendable {
        package var name: String
        /// Bytes of the index files, and the part of them that is in use.
        package var diskUsed: UInt64 = 0
        package var dataUsed: UInt64 = 0
        /// Queries of which the node has answered a part; grows while the bucket has views.
        package var queries: UInt64 = 0
        package var designDocuments: [DesignDocument] = []

        package init(name: String) { self.name = name }
    }

    /// How far the indexes of a design document are; one that several documents share counts in each.
    package struct DesignDocument: Hashable, Sendable {
        /// Without `_design/`.
        package var name: String
        package var isBuilding = false
        package var changesDone: UInt64 = 0
        package var changesTotal: UInt64 = 0
        /// Whether a build waits for its turn, and none of the document's runs.
        package var awaitsBuild = false
        /// The entries that running compactions have copied, and all of them; 0 without one.
        package var copied: UInt64 = 0
        package var toCopy: UInt64 = 0

        package init(name: String) { self.name = name }
    }

    package var buckets: [Bucket] = []

    package init() {}

    package func bucket(named name: String) -> Bucket? { buckets.first { $0.name == name } }
}

// MARK: Between nodes

extension ViewStatistics: PeerPayload {
    init?(_ reader: inout ByteReader) {
        self.init()
        guard let buckets = reader.all(Bucket.self) else { return nil }
        self.buckets = buckets
    }

    func append(to writer: ByteWriter) { writer.append(all: buckets) }
}

extension ViewStatistics.Bucket: PeerPayload {
    init?(_ reader: inout ByteReader) {
        guard let name = reader.text(), let diskUsed = reader.leb128(),
            let dataUsed = reader.leb128(), let queries = reader.leb128(),
            let documents = reader.all(ViewStatistics.DesignDocument.self)
        else { return nil }
        self.init(name: name)
        self.diskUsed = diskUsed
        self.dataUsed = dataUsed
        self.queries = queries
        designDocuments = documents
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: name)
        for number in [diskUsed, dataUsed, queries] { writer.append(leb: number) }
        writer.append(all: designDocuments)
    }
}

extension ViewStatistics.DesignDocument: PeerPayload {
    init?(_ reader: inout ByteReader) {
        guard let name = reader.text(), let isBuilding = reader.flag(),
            let done = reader.leb128(), let total = reader.leb128(),
            let awaitsBuild = reader.flag(), let copied = reader.leb128(),
            let toCopy = reader.leb128()
        else { return nil }
        self.init(name: name)
        self.isBuilding = isBuilding
        (changesDone, changesTotal) = (done, total)
        self.awaitsBuild = awaitsBuild
        (self.copied, self.toCopy) = (copied, toCopy)
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: name)
        writer.append(isBuilding)
        writer.append(leb: changesDone)
        writer.append(leb: changesTotal)
        writer.append(awaitsBuild)
        writer.append(leb: copied)
        writer.append(leb: toCopy)
    }
}
