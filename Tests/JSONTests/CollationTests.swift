import Bytes
import CICU
import JSON
import Testing

extension Collation {
    /// The sort key of a text; nil unless the outcome is `appended`.
    func key(_ text: some StringProtocol) -> [UInt8]? {
        let output = ByteWriter()
        output.append("before")
        let outcome = Array(text.utf8).withView { appendSortKey(ofJSON: $0, to: output) }
        // A failure leaves the output as it was.
        if outcome != .appended { return output.count == 6 ? nil : [] }
        return Array(output.bytes.dropFirst(6))
    }

    /// The sort key of a bound's text; nil unless the outcome is `appended`.
    func bound(_ text: String) -> [UInt8]? {
        let output = ByteWriter()
        let outcome = Array(text.utf8).withView { appendBound(ofJSON: $0, to: output) }
        if outcome != .appended { return output.count == 0 ? nil : [] }
        return output.bytes
    }

    static func json(_ key: [UInt8]) -> (text: String, length: Int)? {
        let output = ByteWriter()
        output.append("before")
        guard let length = key.withView({ appendJSON(ofSortKey: $0, to: output) }) else {
            return output.count == 6 ? nil : ("text was left behind", 0)
        }
        return (String(decoding: output.bytes.dropFirst(6), as: UTF8.self), length)
    }
}

@Suite struct CollationTests {
    let collation = try? Collation()

    @Test func sortKeysHaveTheBytesOfTheFormat() throws {
        let collation = try #require(collation)
        let keys: [(String, [UInt8])] = [
            ("null", [0x10]),
            (" false\n", [0x14]),
            ("true", [0x18]),
            ("0", [0x20, 0x80, 0, 0, 0, 0, 0, 0, 0]),
            ("-0.0", [0x20, 0x80, 0, 0, 0, 0, 0, 0, 0]),
            ("1", [0x20, 0xbf, 0xf0, 0, 0, 0, 0, 0, 0]),
            ("-1", [0x20, 0x40, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            ("[]", [0x40, 0x00]),
            ("{}", [0x50, 0x00]),
            ("[[],{}]", [0x40, 0x40, 0x00, 0x50, 0x00, 0x00]),
        ]
        for (text, key) in keys { #expect(collation.key(text) == key, "\(text)") }
        let string = try #require(collation.key(#""a\u0000\u0001\u0002é\ud800""#))
        #expect(string.first == 0x30)
        let middle = try #require(string.firstIndex(of: 0))
        #expect(
            Array(string[(middle + 1)...])
                == [0x61, 1, 1, 1, 2, 2, 0xc3, 0xa9, 0xed, 0xa0, 0x80, 0]
        )
        let object = try #require(collation.key(#"{"a":null}"#))
        #expect(object == [0x50] + (collation.key(#""a""#) ?? []) + [0x10, 0x00])
    }

    @Test func versionNamesCollatorAndData() {
        #expect(Collation.version.wholeMatch(of: /\d+\.\d+\/\d+\.\d+/) != nil)
    }

    /// Compares 10 000 pairs with the model, a third of them equal or nearly so.
    @Test func memcmpOrderOfSortKeysIsTheContractsOrder() throws {
        let collation = try #require(collation)
        var code: Int32 = 0
        let collator = try #require(divan_collator_open(&code))
        defer { divan_collator_close(collator) }
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        var orders: [Int: Int] = [:]
        for _ in 0..<10_000 {
            let one = TestKey.random(&random)
            let isNear = UInt64.random(in: 0..<3, using: &random) > 0
            let other = isNear ? one.varied(&random) : TestKey.random(&random)
            let expected = TestKey.compare(one, other, collator)
            let first = collation.key(one.variedText(SeededRandom(seed: random.next())))
            let second = collation.key(other.variedText(SeededRandom(seed: random.next())))
            let (one1, other1) = try (#require(first), #require(second))
            let found =
                one1 == other1 ? 0 : one1.lexicographicallyPrecedes(other1) ? -1 : 1
            orders[found, default: 0] += 1
            try #require(found == expected, "seed \(seed): \(one.text) and \(other.text)")
        }
        for order in -1...1 { #expect(orders[order, default: 0] > 100, "seed \(seed)") }
    }

    @Test func sortKeysArePrefixFree() throws {
        let collation = try #require(collation)
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        for _ in 0..<3_000 {
            let one = TestKey.random(&random)
            let key = try #require(collation.key(one.text))
            let other = try #require(collation.key(one.varied(&random).text))
            #expect(key == other || !other.starts(with: key), "seed \(seed): \(one.text)")
            #expect(RowKeyTests.length(key + [0x61, 0xff]) == key.count, "seed \(seed)")
        }
    }

    /// ICU's expansions: U+FDFA is eighteen characters to the collator.
    @Test func keyBeyondALimitIsTooLong() throws {
        let collation = try #require(collation)
        func outcome(_ text: String) -> SortKeyOutcome {
            Array(text.utf8).withView { collation.appendSortKey(ofJSON: $0, to: ByteWriter()) }
        }
        let longest = "\"" + String(repeating: "x", count: Collation.textBytesMax - 2) + "\""
        #expect(outcome(longest) == .appended)
        #expect(outcome(longest + " ") == .tooLong)
        let expanding = "\"" + String(repeating: "\u{fdfa}", count: 1_300) + "\""
        #expect(outcome(expanding) == .tooLong)
        let numbers = "[" + String(repeating: "1,", count: 1_900) + "1]"
        #expect(outcome(numbers) == .tooLong)
    }

    /// Rows and bounds, in ascending order; a bound may have a text and a sort key that no row has.
    @Test func boundLongerThanRowKeysIsOrderedAmongRowKeys() throws {
        let bounds = try Collation(textBytesMax: Collation.boundTextBytesMax)
        func string(_ text: String, _ count: Int, _ end: String = "") -> String {
            "\"" + String(repeating: text, count: count) + end + "\""
        }
        func array(_ count: Int, _ end: String = "1]") -> String {
            "[" + String(repeating: "1,", count: count) + end
        }
        let ordered: [(text: String, isRow: Bool)] = [
            ("1", true), ("\"w\"", true), (string("x", 10), true), (string("x", 4_000), true),
            (string("x", 4_093), true), (string("x", 60_000), false),
            (string("x", 4_092, "y"), true), ("\"y\"", true),
            (string("\u{fdfa}", 20_000), false), ("[]", true), ("[1]", true), (array(1_700), true),
            (array(30_000), false), (array(1_700, "2]"), true), ("[2]", true), ("{}", true),
        ]
        let rows = try #require(collation)
        var last: [UInt8] = []
        for (text, isRow) in ordered {
            let key = try #require(bounds.bound(text))
            let shown = String(text.prefix(20))
            if isRow {
                #expect(rows.key(text) == key, "\(shown)")
            } else {
                #expect(key.count == Collation.boundKeyBytesMax, "\(shown)")
            }
            #expect(last.lexicographicallyPrecedes(key), "\(shown)")
            last = key
        }
    }

    @Test func boundMayHaveALongerTextThanItsKey() throws {
        let bounds = try Collation(textBytesMax: Collation.boundTextBytesMax)
        let key = try #require(collation?.key("\"" + String(repeating: "a", count: 4_000) + "\""))
        let escaped = "\"" + String(repeating: "\\u0061", count: 4_000) + "\""
        #expect(bounds.bound(escaped) == key)
        let longest = "1" + String(repeating: " ", count: Collation.boundTextBytesMax - 1)
        #expect(bounds.bound(longest) == collation?.key("1"))
        #expect(bounds.bound(longest + " ") == nil)
        #expect(bounds.bound("[" + longest) == nil)
        // A collation for rows has no room for longer texts.
        #expect(collation?.bound(escaped) == nil)
        #expect(collation?.bound("1") == collation?.key("1"))
        #expect(bounds.bound("[1") == nil)
    }

    @Test func textThatIsNotOneJSONValueIsRefused() throws {
        let collation = try #require(collation)
        let texts = [
            "", " ", "nul", "nulll", "tru", "01", "1.", ".1", "+1", "1e", "-", "NaN", "Infinity",
            "\"", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\n\"", "\"\u{0}\"", "[", "[1", "[1,", "[1,]",
            "[1 2]", "]", "[}", "{", "{]", "{1:2}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":1",
            "{\"a\" 1}", "1 1", "[] []", "[[]", "'a'", "\u{feff}1",
        ]
        for text in texts { #expect(collation.key(text) == nil, "\(text)") }
        let damaged: [[UInt8]] = [
            [0xff], [0x80], [0xc0, 0x80], [0xc3], [0xe2, 0x82], [0xed, 0xa0, 0x80],
            [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80], [0xf4, 0x90, 0x80, 0x80],
            [0xf0, 0x80, 0x80, 0x80],
        ]
        for bytes in damaged {
            let text: [UInt8] = [0x22] + bytes + [0x22]
            let outcome = text.withView { collation.appendSortKey(ofJSON: $0, to: ByteWriter()) }
            #expect(outcome == .notJSON, "\(bytes)")
        }
    }

    @Test func everyPrefixOfATextIsRefused() throws {
        let collation = try #require(collation)
        let text = Array(#"{"a":[1.5e-3,"é\ud834\udd1e",{"b":[]},true,null]}"#.utf8)
        for count in 0..<text.count {
            let part = Array(text.prefix(count))
            let outcome = part.withView { collation.appendSortKey(ofJSON: $0, to: ByteWriter()) }
            #expect(outcome == .notJSON, "\(count) bytes")
        }
    }

    @Test func deepNestingUpToTheTextLimitIsEncodedAndDecoded() throws {
        let collation = try #require(collation)
        for depth in [1, 63, 64, 65, 128, 129, 1_000, Collation.depthMax] {
            let arrays = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            let key = try #require(collation.key(arrays), "depth \(depth)")
            #expect(Collation.json(key)?.text == arrays, "depth \(depth)")
        }
        let mixed =
            String(repeating: #"[{"":"#, count: 400) + "1" + String(repeating: "}]", count: 400)
        let key = try #require(collation.key(mixed))
        #expect(Collation.json(key)?.text == mixed)
        let open = String(repeating: "[", count: Collation.textBytesMax)
        #expect(collation.key(open) == nil)
        let endless = [UInt8](repeating: 0x40, count: 1 << 20)
        #expect(Collation.json(endless) == nil)
        #expect(RowKeyTests.length(endless) == nil)
    }
}
