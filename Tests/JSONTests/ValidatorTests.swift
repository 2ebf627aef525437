import Bytes
import JSON
import Testing

@Suite struct ValidatorTests {
    let validator = JSONValidator()

    private func isDocument(_ text: String) -> Bool {
        Array(text.utf8).withView { validator.isDocument($0) }
    }

    @Test func anyValueAtTheRootIsJSON() {
        let documents = [
            "1", "-0", "0", "1.5e-3", "12345678901234567890123", "1e999", "true", "false", "null",
            #""""#, #""é""#, " [] ", "{}\n", #"{"a":[1,{"b":null}]}"#, #""\ud800""#,
            #"["\ud83d\ude00"]"#,
        ]
        for text in documents { #expect(isDocument(text), "\(text)") }
        let others = [
            "", " ", "01", "1.", "+1", "-", ".5", "1 2", "True", "nul", "tru e", "'a'", #"""#,
            #""a"#, "{", "}", "[1,]", #"{"a":1,}"#, "{a:1}", "[1}", "[]]", #""\x""#, "\u{feff}[]",
            "\"\t\"", "[1]x", "hello", "1\u{0}", "[\u{0}]", "NaN", "Infinity",
        ]
        for text in others { #expect(!isDocument(text), "\(text)") }
    }

    @Test func illFormedUTF8IsNotJSON() {
        let sequences: [[UInt8]] = [
            [0x80], [0xc0, 0xaf], [0xc2], [0xe0, 0x80, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82],
            [0xf4, 0x90, 0x80, 0x80], [0xf0, 0x80, 0x80, 0x80], [0xff], [0xf8, 0x88, 0x80, 0x80],
        ]
        for sequence in sequences {
            let bytes = [0x5b, 0x22] + sequence + [0x22, 0x5d]
            #expect(!bytes.withView { validator.isDocument($0) }, "\(sequence)")
            #expect(!bytes.withView { JSONGrammar.accepts($0) }, "\(sequence)")
        }
        let fine = Array("[\"\u{7f}\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}\"]".utf8)
        #expect(fine.withView { validator.isDocument($0) })
        #expect(fine.withView { JSONGrammar.accepts($0) })
    }

    @Test func depthIsBounded() {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        for depth in 1_015...1_035 {
            let objects = String(repeating: #"{"a":"#, count: depth) + "1"
            for text in [nested(depth), objects + String(repeating: "}", count: depth)] {
                #expect(isDocument(text) == (depth <= 1_024), "\(depth)")
                #expect(Array(text.utf8).withView { JSONGrammar.accepts($0) } == (depth <= 1_024))
            }
        }
        #expect(!isDocument(nested(100_000)))
        #expect(JSONValue.parse(nested(64)) != nil)
        #expect(JSONValue.parse(nested(65)) == nil)
    }

    @Test func largeValuesAreValidatedLikeSmallOnes() {
        for size in [1_000, 260_000, 270_000, 3_000_000] {
            let unit = #"{"name":"sheet","size":[1,2.5,-3e7],"text":"ä \"quoted\" \u00e9"},"#
            let body = String(repeating: unit, count: size / unit.utf8.count)
            #expect(isDocument("[\(body)null]"))
            #expect(!isDocument("[\(body)]"))
            #expect(!isDocument("[\(body)null}]"))
        }
    }

    /// If simdjson and the grammar differed, a document's datatype would depend on its length.
    @Test func simdjsonAndTheGrammarAgreeOnDamagedDocuments() {
        let seed = #" {"a":[1,-2.5e3,true,null,"x\n\u00e9ü"],"b":{"c":{}, "d":[[],[0]]},"": "€𝄞"} "#
        let alphabet =
            Array(#"{}[]":,\u0123456789-+.eEtrfalsn"#.utf8) + [0, 9, 10, 31, 32, 127, 194, 255]
        var random = SeededRandom(seed: 5)
        var accepted = 0
        for _ in 0..<150_000 {
            var bytes = Array(seed.utf8)
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                let byte = alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[place] = byte
                case 1: bytes.insert(byte, at: place)
                case 2: bytes.remove(at: place)
                default: bytes.removeSubrange(place..<min(place + 5, bytes.count))
                }
            }
            bytes.withView { view in
                let isDocument = validator.isDocument(view)
                accepted += isDocument ? 1 : 0
                #expect(isDocument == JSONGrammar.accepts(view), "\(view.text)")
                // A number that overflows a Double is JSON, but JSONValue refuses it.
                if !isDocument { #expect(JSONValue.parse(view) == nil, "\(view.text)") }
            }
        }
        #expect(accepted > 1_000)
    }

    @Test func simdjsonAndTheGrammarAgreeOnRandomBytes() {
        var random = SeededRandom(seed: 6)
        var accepted = 0
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0...64, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            bytes.withView { view in
                let isDocument = validator.isDocument(view)
                accepted += isDocument ? 1 : 0
                #expect(isDocument == JSONGrammar.accepts(view), "\(bytes)")
                #expect(isDocument == (JSONValue.parse(view) != nil), "\(bytes)")
            }
        }
        #expect(accepted > 0 && accepted < 1_000)
    }
}
