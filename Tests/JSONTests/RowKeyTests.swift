import Bytes
import JSON
import Testing

@Suite struct RowKeyTests {
    let collation = try? Collation()

    static func length(_ bytes: [UInt8]) -> Int? { bytes.withView { RowKey.sortKeyLength($0) } }

    private func row(_ key: [UInt8], _ id: [UInt8], _ ordinal: UInt16) -> [UInt8] {
        let output = ByteWriter()
        key.withView { key in
            id.withView { RowKey.append(sortKey: key, id: $0, ordinal: ordinal, to: output) }
        }
        return output.bytes
    }

    private func bound(
        after: Bool,
        _ key: [UInt8],
        _ id: [UInt8]?
    ) -> [UInt8] {
        let output = ByteWriter()
        key.withView { key in
            func append(_ id: ByteView?) {
                if after {
                    RowKey.appendBound(after: key, id: id, to: output)
                } else {
                    RowKey.appendBound(before: key, id: id, to: output)
                }
            }
            if let id { id.withView { append($0) } } else { append(nil) }
        }
        return output.bytes
    }

    /// IDs with the bytes that are escaped, and with FF, which a bound must not be below.
    private let ids: [[UInt8]] = [
        [], [0], [0, 0], [0, 1], [1], [1, 0], [1, 2], [2], Array("a".utf8), Array("a\u{0}".utf8),
        Array("a\u{0}b".utf8), Array("ab".utf8), Array("é".utf8), [0xff], [0xff, 0xff],
        [0xff, 0xff, 0xff, 0xff],
    ]

    private func keys() throws -> [[UInt8]] {
        let collation = try #require(collation)
        let texts = [
            "null", "true", "-1", "0", "-5e-324", "5e-324", "1.9999999999999998", "2",
            "9007199254740991", #""""#, #""\u0000""#, #""a""#, #""ab""#, "[]", "[null]", "[1]",
            "[1,2]", "[1,2,3]", "[[1],2]", #"["a"]"#, "{}", #"{"a":1}"#,
        ]
        return try texts.map { try #require(collation.key($0)) }.sorted {
            $0.lexicographicallyPrecedes($1)
        }
    }

    @Test func rowKeyIsSplitIntoSortKeyIDAndOrdinal() throws {
        for key in try keys() {
            for id in ids {
                for ordinal: UInt16 in [0, 1, 0xff, 0x100, 0xffff] {
                    try row(key, id, ordinal).withView { bytes in
                        let row = try #require(RowKey(bytes))
                        let unescaped = ByteWriter()
                        #expect(row.sortKey.bytes == key)
                        #expect(row.appendID(to: unescaped))
                        #expect(unescaped.bytes == id)
                        #expect(row.ordinal == ordinal)
                    }
                }
            }
        }
    }

    @Test func rowKeysAreOrderedByKeyThenIDThenOrdinal() throws {
        var rows: [[UInt8]] = []
        for key in try keys() {
            for id in ids { rows += [0, 1, 0x100, 0xffff].map { row(key, id, $0) } }
        }
        for (one, other) in zip(rows, rows.dropFirst()) {
            #expect(one.lexicographicallyPrecedes(other))
        }
    }

    @Test func boundsDivideTheRowsAtTheirKeyAndID() throws {
        var rows: [(key: Int, id: Int, bytes: [UInt8])] = []
        let keys = try keys()
        for key in keys.indices {
            for id in ids.indices {
                rows += [0, 0xffff].map { (key, id, row(keys[key], ids[id], $0)) }
            }
        }
        for key in keys.indices {
            for id in [nil] + ids.indices.map(Optional.some) {
                let before = bound(after: false, keys[key], id.map { ids[$0] })
                let after = bound(after: true, keys[key], id.map { ids[$0] })
                for row in rows {
                    let place = (row.key, id == nil ? 0 : row.id)
                    let isBefore = place < (key, id ?? 0)
                    let isAfter = place > (key, id ?? 0)
                    #expect(row.bytes.lexicographicallyPrecedes(before) == isBefore)
                    #expect(row.bytes.lexicographicallyPrecedes(after) == !isAfter)
                }
            }
        }
    }

    @Test func damagedRowKeyIsRefused() throws {
        let whole = row([0x40, 0x18, 0x00], [0x61, 0x00], 7)
        for count in 0..<whole.count {
            #expect(Array(whole.prefix(count)).withView { RowKey($0) == nil }, "\(count) bytes")
        }
        #expect((whole + [0]).withView { RowKey($0) == nil })
        [0x18, 0x01, 0x03, 0x00, 0x00, 0x00].withView { bytes in
            let output = ByteWriter()
            #expect(RowKey(bytes)?.appendID(to: output) == false)
            #expect(output.count == 0)
        }
    }

    @Test func groupPrefixEndsBehindTheFirstElements() throws {
        let collation = try #require(collation)
        let groups: [(String, Int, String, Bool)] = [
            ("[1,2,3]", 1, "[1]", true), ("[1,2,3]", 2, "[1,2]", true),
            ("[1,2,3]", 3, "[1,2,3]", true), ("[1,2,3]", 4, "[1,2,3]", false),
            ("[]", 1, "[]", false), ("[[1,2],{\"a\":[]}]", 1, "[[1,2]]", true),
            ("[[1,2],{\"a\":[]},3]", 2, "[[1,2],{\"a\":[]}]", true), ("7", 1, "7", false),
            ("\"a\"", 2, "\"a\"", false), ("{\"a\":1}", 1, "{\"a\":1}", false),
            ("[\"a\\u0000\",null]", 1, "[\"a\\u0000\"]", true),
        ]
        for (text, level, expected, isOpen) in groups {
            let bytes = row(try #require(collation.key(text)), [0x61], 0)
            let output = ByteWriter()
            let prefix = try bytes.withView { bytes in
                let prefix = try #require(RowKey.groupPrefix(of: bytes, level: level))
                RowKey.appendSortKey(of: prefix, in: bytes, to: output)
                return prefix
            }
            #expect(prefix.isOpenArray == isOpen, "\(text)")
            #expect(output.bytes == collation.key(expected), "\(text) by \(level)")
        }
        for damaged: [UInt8] in [[], [0x40], [0x40, 0x18], [0x40, 0x20, 0], [0x11]] {
            #expect(damaged.withView { RowKey.groupPrefix(of: $0, level: 2) } == nil)
        }
    }

    /// The rows of a group are those between its prefix and the bound behind the prefix.
    @Test func rowsOfAGroupAreThoseWithItsPrefix() throws {
        let collation = try #require(collation)
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        var rows: [(key: [UInt8], bytes: [UInt8])] = []
        for _ in 0..<300 {
            let values = (0..<Int.random(in: 0...3, using: &random)).map { _ in
                TestKey.number(Double(Int.random(in: 0...2, using: &random)))
            }
            let key = try #require(collation.key(TestKey.array(values).text))
            rows.append((key, row(key, [0xff, 0xff], 0)))
        }
        for level in 1...3 {
            for (_, bytes) in rows {
                let prefix = try #require(
                    bytes.withView { RowKey.groupPrefix(of: $0, level: level) }
                )
                let lower = Array(bytes.prefix(prefix.length))
                let upper = ByteWriter()
                lower.withView { RowKey.appendBound(afterPrefix: $0, to: upper) }
                for (key, other) in rows {
                    let isInRange =
                        !other.lexicographicallyPrecedes(lower)
                        && other.lexicographicallyPrecedes(upper.bytes)
                    let same = try #require(
                        other.withView { RowKey.groupPrefix(of: $0, level: level) }
                    )
                    let isInGroup = Array(other.prefix(same.length)) == lower
                    #expect(isInRange == isInGroup, "seed \(seed): \(key)")
                }
            }
        }
    }
}
