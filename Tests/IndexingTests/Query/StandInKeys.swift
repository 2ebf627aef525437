import Bytes
import Indexing
import JSON
import Vocabulary

/// Sort keys with the structure of the real ones and without ICU: strings are ordered by bytes.
enum StandInKeys {
    /// Longer texts have no key.
    static let textBytesMax = 100

    static func encode(_ text: ByteView) -> [UInt8]? {
        guard text.count <= textBytesMax, let value = JSONValue.parse(text) else { return nil }
        return encode(value)
    }

    static func encode(_ json: String) -> [UInt8] {
        JSONValue.parse(json).map(encode) ?? []
    }

    static func encode(_ value: JSONValue) -> [UInt8] {
        switch value {
        case .null: return [0x10]
        case .bool(false): return [0x14]
        case .bool(true): return [0x18]
        case .integer, .unsigned, .real:
            let bits = ((value.double ?? 0) + 0).bitPattern
            let ordered = bits >> 63 == 1 ? ~bits : bits | 1 << 63
            return [0x20] + (0..<8).map { UInt8(truncatingIfNeeded: ordered >> (56 - 8 * $0)) }
        case .string(let text): return [0x30] + escaped(Array(text.utf8)) + [0x00]
        case .array(let values): return [0x40] + values.flatMap(encode) + [0x00]
        case .object(let members):
            return [0x50] + members.flatMap { encode(.string($0.name)) + encode($0.value) } + [0x00]
        }
    }

    static func rowKey(_ key: [UInt8], id: [UInt8], ordinal: UInt16 = 0) -> [UInt8] {
        key + escaped(id) + [0x00, UInt8(ordinal >> 8), UInt8(ordinal & 0xff)]
    }

    static func rowKey(_ json: String, id: String, ordinal: UInt16 = 0) -> [UInt8] {
        rowKey(encode(json), id: Array(id.utf8), ordinal: ordinal)
    }

    private static func escaped(_ bytes: [UInt8]) -> [UInt8] {
        bytes.flatMap { $0 <= 1 ? [0x01, $0 + 1] : [$0] }
    }
}

/// A row as tests state it.
struct TestRow: Equatable, Comparable {
    var keyNumber = 0
    var vBucket: UInt16 = 0
    var key: [UInt8]
    var value: [UInt8] = []

    static func < (one: TestRow, other: TestRow) -> Bool {
        one.keyNumber == other.keyNumber
            ? one.key.lexicographicallyPrecedes(other.key) : one.keyNumber < other.keyNumber
    }

    init(keyNumber: Int = 0, vBucket: UInt16 = 0, key: [UInt8], value: [UInt8] = []) {
        self.keyNumber = keyNumber
        self.vBucket = vBucket
        self.key = key
        self.value = value
    }

    init(_ row: RowBatch.Row) {
        keyNumber = row.keyNumber
        vBucket = row.vBucket.number
        key = row.key.bytes
        value = row.value.bytes
    }
}

extension RowBatch {
    static func of(_ rows: [TestRow]) throws -> RowBatch {
        var writer = RowBatchWriter()
        for row in rows {
            row.key.borrowed { key in
                row.value.borrowed { value in
                    writer.append(
                        keyNumber: row.keyNumber,
                        vBucket: VBucketID(row.vBucket),
                        key: key,
                        value: value
                    )
                }
            }
        }
        return try RowBatch(decoding: writer.finish())
    }

    var rows: [TestRow] { (0..<count).map { withRow($0) { TestRow($0) } } }
}

extension [UInt8] {
    func borrowed<Result>(_ body: (ByteView) throws -> Result) rethrows -> Result {
        try withUnsafeBytes { try body(ByteView($0)) }
    }
}

extension MergePlan {
    init(
        isDescending: Bool = false,
        isGrouped: Bool = false,
        failurePolicy: ViewQuery.FailurePolicy = .continueRows
    ) {
        var query = ViewQuery()
        query.isDescending = isDescending
        query.reduction = isGrouped ? .all : .none
        query.failurePolicy = failurePolicy
        self.init(query)
    }
}
