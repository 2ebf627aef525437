package import Bytes
package import Vocabulary

/// What the coordinator of a query asks of one node.
///
/// The payload of one frame: its length is the frame's. Parts have their own length. A reader skips
/// bytes behind the fields that it knows, so a later release can add fields to the end of the
/// message and of its parts.
package struct QueryRequest: Equatable, Sendable {
    package var bucket: String
    /// The cluster map that assigned the vBuckets.
    package var mapRevision: UInt64
    /// The vBuckets to answer for, and no others; in ascending order.
    package var vBuckets: [VBucketID]
    package var index: IndexSelection
    package var scan: ScanPlan
    package var freshness: ViewQuery.Freshness
    /// The milliseconds in which the responder must start; relative, since clocks differ.
    package var startMillisecondsMax: UInt64

    /// The index and its part that a query reads.
    package struct IndexSelection: Equatable, Sendable {
        package var choice: IndexChoice
        /// The reduce function's stored values; nil for rows.
        package var slot: IndexSignature?
        /// The version of the collation that made the query's sort keys.
        package var collation: String

        package init(choice: IndexChoice, slot: IndexSignature? = nil, collation: String) {
            self.choice = choice
            self.slot = slot
            self.collation = collation
        }
    }

    /// A request for no vBucket yet; the coordinator adds map and vBuckets for each node.
    package init(
        bucket: String,
        index: IndexSelection,
        scan: ScanPlan,
        freshness: ViewQuery.Freshness
    ) {
        self.bucket = bucket
        self.index = index
        self.scan = scan
        self.freshness = freshness
        mapRevision = 0
        vBuckets = []
        startMillisecondsMax = 0
    }
}

// MARK: Encoding

extension QueryRequest {
    package func append(to output: ByteWriter) {
        let writer = RecordWriter(output)
        writer.text(bucket)
        writer.number(mapRevision)
        writer.vBuckets(vBuckets)
        writer.record(index.append)
        writer.record(scan.append)
        writer.byte(freshness.rawValue)
        writer.number(startMillisecondsMax)
    }

    /// - Throws: `QueryMessageError` if the bytes are not a request.
    package init(_ bytes: ByteView) throws(QueryMessageError) {
        var reader = RecordReader(bytes)
        bucket = try reader.text("bucket")
        mapRevision = try reader.number("map revision", UInt64.self)
        vBuckets = try reader.vBuckets("vBuckets")
        var record = try reader.record("index")
        index = try IndexSelection(&record)
        record = try reader.record("scan")
        scan = try ScanPlan(&record)
        guard let freshness = ViewQuery.Freshness(rawValue: try reader.byte("freshness")) else {
            throw .invalid("freshness")
        }
        self.freshness = freshness
        startMillisecondsMax = try reader.number("start", UInt64.self)
    }
}

extension QueryRequest.IndexSelection {
    func append(to writer: RecordWriter) {
        writer.bytes(choice.current.bytes)
        writer.bytes(choice.previous?.bytes ?? [])
        writer.flag(choice.usesPrevious)
        writer.bytes(slot?.bytes ?? [])
        writer.text(collation)
    }

    init(_ reader: inout RecordReader) throws(QueryMessageError) {
        guard let current = try reader.signature("index") else { throw .invalid("index") }
        let previous = try reader.signature("previous index")
        let usesPrevious = try reader.flag("use of the previous index")
        guard !usesPrevious || previous != nil else { throw .invalid("previous index") }
        choice = IndexChoice(current: current, previous: previous, usesPrevious: usesPrevious)
        slot = try reader.signature("slot")
        collation = try reader.text("collation")
    }
}

extension RecordWriter {
    /// Appends vBuckets, which are in ascending order.
    func vBuckets(_ vBuckets: [VBucketID]) {
        number(vBuckets.count)
        for vBucket in vBuckets { number(vBucket.number) }
    }
}

extension RecordReader {
    /// vBuckets in ascending order.
    mutating func vBuckets(_ field: String) throws(QueryMessageError) -> [VBucketID] {
        var vBuckets: [VBucketID] = []
        for _ in 0..<(try count(field)) {
            let number = try number("vBucket", UInt16.self)
            let isInOrder = vBuckets.last.map { $0.number < number } ?? true
            guard isInOrder, number < Limits.vBucketsDefault else { throw .invalid("vBucket") }
            vBuckets.append(VBucketID(number))
        }
        return vBuckets
    }

    /// A signature, or nil for none.
    mutating func signature(_ field: String) throws(QueryMessageError) -> IndexSignature? {
        let bytes = try bytes(field)
        if bytes.isEmpty { return nil }
        guard let signature = IndexSignature(bytes.bytes) else { throw .invalid(field) }
        return signature
    }
}

extension ScanPlan {
    private static let noReduction: UInt8 = 0
    private static let reductionOfAll: UInt8 = 1
    private static let reductionOfGroups: UInt8 = 2

    func append(to writer: RecordWriter) {
        switch reduction {
        case .none: writer.byte(ScanPlan.noReduction)
        case .all: writer.byte(ScanPlan.reductionOfAll)
        case .groups(let level):
            writer.byte(ScanPlan.reductionOfGroups)
            writer.number(level ?? 0)
        }
        writer.flag(hasKeys)
        writer.flag(isDescending)
        writer.flag(rowsMax != nil)
        writer.number(rowsMax ?? 0)
        writer.number(ranges.count)
        for range in ranges {
            writer.record { fields in
                fields.bytes(range.lower)
                fields.flag(range.upper != nil)
                fields.bytes(range.upper ?? [])
            }
        }
    }

    init(_ reader: inout RecordReader) throws(QueryMessageError) {
        switch try reader.byte("reduction") {
        case ScanPlan.noReduction: reduction = .none
        case ScanPlan.reductionOfAll: reduction = .all
        case ScanPlan.reductionOfGroups:
            let level = try reader.number("group level", Int.self)
            reduction = .groups(level: level == 0 ? nil : level)
        default: throw .invalid("reduction")
        }
        hasKeys = try reader.flag("keys")
        isDescending = try reader.flag("direction")
        let isLimited = try reader.flag("limit")
        let limit = try reader.number("limit", Int.self)
        rowsMax = isLimited ? limit : nil
        ranges = []
        for _ in 0..<(try reader.count("ranges")) {
            var fields = try reader.record("range")
            let lower = try fields.bytes("lower bound").bytes
            let hasUpper = try fields.flag("upper bound")
            let upper = try fields.bytes("upper bound").bytes
            ranges.append(RowRange(lower: lower, upper: hasUpper ? upper : nil))
        }
    }
}
