import Bytes
import JSON
import Testing

@Suite struct SortKeyDecoderTests {
    let collation = try? Collation()

    @Test func decodedKeyIsTheTextThatJavaScriptWrites() throws {
        let collation = try #require(collation)
        // The compiler refuses noncharacters in literals.
        var noncharacters = ""
        for point: UInt32 in [0x2028, 0xfffe, 0xffff, 0xfdd0, 0xfeff] {
            noncharacters.unicodeScalars.append(try #require(Unicode.Scalar(point)))
        }
        let texts: [(String, String)] = [
            (" null ", "null"),
            ("[ true , false ]", "[true,false]"),
            (#"{ "b" : 1e2 , "a" : -0 , "b" : [ ] }"#, #"{"b":100,"a":0,"b":[]}"#),
            (#""\u0061\/\u0022\u005C""#, #""a/\"\\""#),
            (
                #""\u0000\u0001\u0008\u0009\u000a\u000c\u000d\u001f\u007f""#,
                "\"\\u0000\\u0001\\b\\t\\n\\f\\r\\u001f\u{7f}\""
            ),
            (#""\ud834\udd1e""#, "\"\u{1d11e}\""),
            (#""\uD800""#, #""\ud800""#),
            (#""\udc00\ud800x\udbff""#, #""\udc00\ud800x\udbff""#),
            (#""\ud800\ud834\udd1e\udd1e""#, "\"\\ud800\u{1d11e}\\udd1e\""),
            (#""\u2028\ufffe\uffff\ufdd0\ufeff""#, "\"\(noncharacters)\""),
            (#""""#, #""""#),
            (#"{"":{"":[[]]}}"#, #"{"":{"":[[]]}}"#),
        ]
        for (text, expected) in texts {
            let key = try #require(collation.key(text), "\(text)")
            let decoded = try #require(Collation.json(key), "\(text)")
            #expect(Array(decoded.text.utf8) == Array(expected.utf8), "\(text)")
            #expect(decoded.length == key.count)
        }
    }

    @Test func decodedRandomKeyIsItsCanonicalText() throws {
        let collation = try #require(collation)
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        for _ in 0..<5_000 {
            let tree = TestKey.random(&random)
            let text = tree.variedText(SeededRandom(seed: random.next()))
            let key = try #require(collation.key(text), "seed \(seed): \(text)")
            // A row's other bytes follow the key.
            let decoded = try #require(Collation.json(key + [0x61, 0x00]), "seed \(seed): \(text)")
            #expect(Array(decoded.text.utf8) == Array(tree.text.utf8), "seed \(seed): \(text)")
            #expect(decoded.length == key.count, "seed \(seed): \(text)")
            #expect(collation.key(decoded.text) == key, "seed \(seed): \(text)")
        }
    }

    @Test func malformedSortKeyIsRefused() {
        let keys: [[UInt8]] = [
            [], [0x00], [0x11], [0xff], [0x20], [0x20, 0x80, 0, 0, 0, 0, 0, 0],
            // NaN, and minus zero, which the encoder does not write.
            [0x20, 0xff, 0xf8, 0, 0, 0, 0, 0, 0],
            [0x20, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            [0x30], [0x30, 0x01, 0x01], [0x30, 0x01, 0x01, 0x00], [0x30, 0x01, 0x00, 0x61],
            [0x30, 0x01, 0x00, 0x01, 0x00], [0x30, 0x01, 0x00, 0x01, 0x03, 0x00],
            [0x30, 0x01, 0x00, 0x80, 0x00], [0x30, 0x01, 0x00, 0xc0, 0x80, 0x00],
            [0x30, 0x01, 0x00, 0xed, 0xa0, 0x00], [0x30, 0x01, 0x00, 0xff, 0x00],
            // A pair of surrogates, which the encoder makes one character.
            [0x30, 0x01, 0x00, 0xed, 0xa0, 0x80, 0xed, 0xb0, 0x80, 0x00],
            [0x40], [0x40, 0x10], [0x40, 0x41, 0x00], [0x50], [0x50, 0x10, 0x00],
            [0x50, 0x30, 0x01, 0x00, 0x61, 0x00], [0x50, 0x30, 0x01, 0x00, 0x61, 0x00, 0x00],
        ]
        for key in keys { #expect(Collation.json(key) == nil, "\(key)") }
    }

    /// Damaged keys and random bytes: the decoder writes JSON or refuses, and both walks agree.
    @Test func damagedSortKeyIsRefusedOrDecodedToJSON() throws {
        let collation = try #require(collation)
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        var decodedCount = 0
        for round in 0..<8_000 {
            var key = try #require(collation.key(TestKey.random(&random).text))
            if round % 4 == 0 {
                let tags: [UInt8] = [0, 0, 0, 1, 2, 0x10, 0x14, 0x18, 0x20, 0x30, 0x40, 0x50, 0xed]
                key = (0..<Int.random(in: 0...40, using: &random)).map { _ in
                    tags.randomElement(using: &random) ?? 0
                }
            } else {
                for _ in 0..<Int.random(in: 1...3, using: &random) where !key.isEmpty {
                    let place = Int.random(in: 0..<key.count, using: &random)
                    switch UInt64.random(in: 0..<3, using: &random) {
                    case 0: key[place] = UInt8.random(in: 0...255, using: &random)
                    case 1: key.remove(at: place)
                    default: key.removeSubrange(place...)
                    }
                }
            }
            let length = RowKeyTests.length(key)
            guard let decoded = Collation.json(key) else { continue }
            decodedCount += 1
            #expect(decoded.length == length, "seed \(seed): \(key)")
            let isJSON = Array(decoded.text.utf8).withView { JSONValidator().isDocument($0) }
            #expect(isJSON, "seed \(seed): \(key)")
        }
        #expect(decodedCount > 200, "seed \(seed)")
    }
}
