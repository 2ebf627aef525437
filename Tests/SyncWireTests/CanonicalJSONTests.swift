import Bytes
import SyncWire
import Testing

/// The texts are what Go 1.8 to 1.21 writes for the same input.
@Suite struct CanonicalJSONTests {
    @Test(arguments: [
        ("{}", "{}"), (" [ ] ", "[]"), ("null", "null"),
        ("[true,false , null]", "[true,false,null]"),
        (#"{"b":1,"a":2}"#, #"{"a":2,"b":1}"#),
        (
            #"{"b":{"d":[{"z":1,"y":2},{}],"c":3},"a":[]}"#,
            #"{"a":[],"b":{"c":3,"d":[{"y":2,"z":1},{}]}}"#
        ),
        (#"{ "a" : [ 1 , { "b" : 2 } ] , "c" : { } }"#, #"{"a":[1,{"b":2}],"c":{}}"#),
        (
            #"[{"b":1,"a":{"d":1,"c":[{"f":1,"e":2},{"h":1,"g":2}]}},{"j":1,"i":2}]"#,
            #"[{"a":{"c":[{"e":2,"f":1},{"g":2,"h":1}],"d":1},"b":1},{"i":2,"j":1}]"#
        ),
        // The last of equal names counts, also if the names have different texts.
        (#"{"a":1,"b":2,"a":{"c":3}}"#, #"{"a":{"c":3},"b":2}"#),
        (#"{"a":1,"\u0061":2}"#, #"{"a":2}"#),
        (
            #"{"x":{"a":{"q":[{"b":1,"a":1}]},"a":{"b":2,"a":1}},"y":{"b":1,"a":2}}"#,
            #"{"x":{"a":{"a":1,"b":2}},"y":{"a":2,"b":1}}"#
        ),
        // Names are sorted by their bytes.
        (
            #"{"é":1,"z":2,"Z":3,"":4,"_":5,"aa":6,"a":7}"#,
            #"{"":4,"Z":3,"_":5,"a":7,"aa":6,"z":2,"é":1}"#
        ),
    ]) func objectsAreSortedAndHaveNoBlanks(json: String, canonical: String) throws {
        #expect(try view(json) { try CanonicalJSON.text($0) } == Array(canonical.utf8))
    }

    @Test(arguments: [
        (#""<a href='x'>&</a>""#, #""\u003ca href='x'\u003e\u0026\u003c/a\u003e""#),
        ("\"\u{2028}\u{2029}\u{2030}\"", "\"\\u2028\\u2029\u{2030}\""),
        (
            #""\u2028\u003c\/\u00e9\n\r\t\b\f\u0001\u007f""#,
            "\"\\u2028\\u003c/é\\n\\r\\t\\u0008\\u000c\\u0001\u{7f}\""
        ),
        (#""\"\\""#, #""\"\\""#),
        (#""\ud83d\ude00""#, "\"😀\""),
        // A lone surrogate is one U+FFFD, and what follows it counts on its own.
        (#""\ud83d""#, "\"\u{fffd}\""), (#""\ud83d\u0041""#, "\"\u{fffd}A\""),
        (#""\ude00\ud83d\ude00""#, "\"\u{fffd}😀\""), (#""\ud83dx""#, "\"\u{fffd}x\""),
    ]) func stringsHaveGosEscapes(json: String, canonical: String) throws {
        #expect(try view(json) { try CanonicalJSON.text($0) } == Array(canonical.utf8))
    }

    /// Go's decoder repairs each byte for itself, where Swift's repairs a cut sequence as one.
    @Test(
        arguments: [
            ([0xff], 1), ([0xe2, 0x82], 2), ([0xf0, 0x9f, 0x98], 3), ([0xc0, 0x80], 2),
            ([0xed, 0xa0, 0x80], 3),
        ] as [([UInt8], Int)]
    ) func illFormedBytesAreRepairedOneByOne(bytes: [UInt8], count: Int) throws {
        let text = [0x22] + bytes + [0x22]
        let repaired = "\"" + String(repeating: "\u{fffd}", count: count) + "\""
        #expect(try view(text) { try CanonicalJSON.text($0) } == Array(repaired.utf8))
    }

    @Test(arguments: [
        ("0", "0"), ("-0", "-0"), ("-0.0e5", "-0"), ("1.0", "1"), ("1e3", "1000"),
        ("-12.50", "-12.5"),
        ("100000000000000000000", "100000000000000000000"), ("1e21", "1e+21"),
        ("1.5e300", "1.5e+300"),
        ("0.000001", "0.000001"), ("0.0000001", "1e-7"), ("1.25e-10", "1.25e-10"), ("1e-400", "0"),
        ("9007199254740993", "9007199254740992"), ("12345678901234567890", "12345678901234567000"),
        ("0.1", "0.1"), ("123456789.125", "123456789.125"), ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
    ]) func numbersAreGosDoubles(json: String, canonical: String) throws {
        #expect(try view(json) { try CanonicalJSON.text($0) } == Array(canonical.utf8))
    }

    /// Releases since 2.0 keep the text of a number, so that large integers survive.
    @Test(arguments: [
        "0", "-0.0e5", "1.0", "1E+3", "9007199254740993", "12345678901234567890", "1e400",
    ])
    func literalNumbersStayAsTheyAre(json: String) throws {
        #expect(
            try view(json) { try CanonicalJSON.text($0, numbers: .literals) } == Array(json.utf8)
        )
        let body = try view("{\"n\": \(json)}") { try DocumentBody($0, numbers: .literals) }
        #expect(body.content.bytes == Array("{\"n\":\(json)}".utf8))
        #expect(DocumentContent(canonical: body.content.bytes) == body.content)
    }

    @Test(arguments: [
        "", " ", "nul", "{", "[", "[1,]", "{\"a\"}", "{\"a\":1,}", "{a:1}", "[1 2]", "01", "1.",
        "+1", "1e400",
        "-1e999", "\"a", "\"\\x\"", "\"\n\"", "{} {}", "]", "}", "[}", "{]", "{\"a\":[}",
        "\"\\ud8\"",
    ]) func invalidTextsAreRefusedAsBadJSON(text: String) {
        #expect(refusal { try view(text) { try CanonicalJSON.text($0) } } == .badJSON)
    }

    @Test func nestingIsBoundedAtAThousand() throws {
        for (opening, closing) in [("[", "]"), ("{\"a\":", "}")] {
            for (depth, isAccepted) in [(1_000, true), (1_001, false), (100_000, false)] {
                let text =
                    String(repeating: opening, count: depth) + "1"
                    + String(repeating: closing, count: depth)
                if isAccepted {
                    #expect(try view(text) { try CanonicalJSON.text($0) } == Array(text.utf8))
                } else {
                    #expect(refusal { try view(text) { try CanonicalJSON.text($0) } } == .tooDeep)
                }
            }
        }
    }

    /// Each byte is read twice at any depth: a text that is scanned at each level would need minutes here.
    @Test func deepUnsortedTextTakesLinearTime() throws {
        let large = String(repeating: "x", count: 1 << 20)
        let text =
            String(repeating: "{\"b\":0,\"a\":", count: 1_000) + "\"\(large)\""
            + String(repeating: "}", count: 1_000)
        let canonical =
            String(repeating: "{\"a\":", count: 1_000) + "\"\(large)\""
            + String(repeating: ",\"b\":0}", count: 1_000)
        #expect(try view(text) { try CanonicalJSON.text($0) } == Array(canonical.utf8))
    }

    @Test func canonicalTextIsItsOwnCanonicalText() throws {
        let text = #"{"b":[1e30,-0,{"d":"<\ud800>","c":null}],"a":{"\n":0.1}}"#
        let once = try view(text) { try CanonicalJSON.text($0) }
        #expect(try view(once) { try CanonicalJSON.text($0) } == once)
    }
}
