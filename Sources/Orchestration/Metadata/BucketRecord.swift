package import Vocabulary

/// What REST remembers of a bucket beside `BucketSettings`.
package struct BucketOptions: Hashable, Sendable {
    /// What is done with documents that clients send compressed; compressing what they did not is
    /// not built, so there is no `active`.
    package enum CompressionMode: String, Sendable {
        case off
        case passive
    }

    package var compressionMode = CompressionMode.passive

    package init() {}
}

/// Which node has which copy of each vBucket: rows of one byte a copy, the active one first.
///
/// - A column is an index into the bucket's `servers`, or `none`.
/// - Every row has the same number of columns, which is what clients rely on.
package struct VBucketRows: Hashable, Sendable {
    package static let none: UInt8 = 0xff

    package let copies: Int
    package private(set) var columns: [UInt8]

    /// Rows that are read back; nil where they do not fill whole rows.
    package init?(copies: Int, columns: [UInt8]) {
        guard copies > 0, columns.count % copies == 0 else { return nil }
        self.copies = copies
        self.columns = columns
    }

    /// All vBuckets active on the first server, with no replicas anywhere yet.
    package init(vBuckets: Int, replicas: Int) {
        precondition(vBuckets > 0 && replicas >= 0, "a bucket has vBuckets, and rows have columns")
        copies = 1 + replicas
        columns = [UInt8](repeating: Self.none, count: vBuckets * copies)
        for row in 0..<vBuckets { columns[row * copies] = 0 }
    }

    package var count: Int { columns.count / copies }

    package subscript(row: Int) -> ArraySlice<UInt8> {
        columns[row * copies..<(row + 1) * copies]
    }
}

/// Everything the cluster has agreed on about one bucket.
package struct BucketRecord: Hashable, Sendable {
    package var settings: BucketSettings
    package var options: BucketOptions
    /// Numbers of the nodes that hold the bucket; columns of `rows` point here.
    package var servers: [UInt16]
    package var rows: VBucketRows
    /// The index of the last command that changed what a client sees of the bucket.
    package var rev: UInt64 = 0

    package init(
        settings: BucketSettings,
        options: BucketOptions,
        servers: [UInt16],
        rows: VBucketRows
    ) {
        self.settings = settings
        self.options = options
        self.servers = servers
        self.rows = rows
    }
}
