import Bytes
import SubDocument
import Testing

@Suite struct PathLookupTests {
    static let document = #"""
        { "name" : "Ada", "list" : [ 1, -2.5e+3, [ ], { "x" : null } , "é" ] ,
          "deep":{"a":{"b":{"c":true}}},"empty":{},"":0, "last" : false }
        """#

    @Test(arguments: [
        ("name", #""Ada""#), ("list[0]", "1"), ("list[1]", "-2.5e+3"), ("list[2]", "[ ]"),
        ("list[3]", #"{ "x" : null }"#), ("list[3].x", "null"), ("list[4]", #""é""#),
        ("list[-1]", #""é""#), ("deep.a.b.c", "true"), ("deep.a", #"{"b":{"c":true}}"#),
        ("empty", "{}"), ("last", "false"),
    ]) func valueIsASliceWithoutBlanks(path: String, value: String) {
        #expect(get(path, Self.document) == .text(value))
    }

    @Test(arguments: [
        ("nothing", PathFailure.notFound), ("deep.a.x", .notFound), ("deep.x.y", .notFound),
        ("list[5]", .notFound), ("list[2][0]", .notFound), ("list[2][-1]", .notFound),
        ("name.x", .mismatch), ("name[0]", .mismatch), ("last.x", .mismatch),
        ("list[1].x", .mismatch), ("list.x", .mismatch), ("deep[0]", .mismatch),
        ("deep[-1]", .mismatch), ("empty[0]", .mismatch), ("list[2].x", .mismatch),
        ("", .invalidArguments),
    ]) func pathWithoutValueFails(path: String, failure: PathFailure) {
        #expect(get(path, Self.document) == .failure(failure))
    }

    @Test(
        arguments: [
            ("list", "5"), ("deep", "1"), ("empty", "0"), ("list[2]", "0"), ("", "6"),
            ("list[-1]", nil), ("name", nil),
        ] as [(String, String?)]
    ) func countIsTheNumberOfElements(path: String, expected: String?) {
        let outcome = expected.map { Outcome.text($0) } ?? .failure(.mismatch)
        #expect(count(path, Self.document) == outcome)
    }

    @Test func countOfMissingPathIsNotFound() {
        #expect(count("x", "{}") == .failure(.notFound))
        #expect(count("", " [ 1 , 2 ] ") == "2")
        #expect(count("", "5") == .failure(.mismatch))
    }

    @Test func existsAgreesWithValue() {
        for (path, document) in [("a", #"{"a":1}"#), ("b", #"{"a":1}"#), ("a.x", #"{"a":1}"#)] {
            let outcome = withPath(path) { path in
                Array(document.utf8).withView { document in
                    switch PathLookup.exists(at: path, in: document) {
                    case .success: "yes"
                    case .failure(let failure): .failure(failure)
                    }
                }
            }
            let value = get(path, document)
            if case .failure = value {
                #expect(outcome == value)
            } else {
                #expect(outcome == "yes")
            }
        }
    }

    @Test(arguments: [
        ("é", #"{"\u00e9":1}"#), ("é", #"{"é":1}"#), ("😀", #"{"\ud83d\ude00":1}"#),
        ("😀", #"{"\uD83D\uDE00":1}"#), (#"a\"b"#, #"{"a\u0022b":1}"#), (#"a\/b"#, #"{"a/b":1}"#),
        ("a/b", #"{"a\/b":1}"#), (#"a\nb"#, #"{"a\u000ab":1}"#), ("abc", #"{"\u0061\u0062c":1}"#),
        ("`a.b`", #"{"a\u002eb":1}"#), ("`a``b`", #"{"a\u0060b":1}"#), ("日本", #"{"日\u672c":1}"#),
        (#"\\"#, #"{"\\":1}"#), (#"\\"#, #"{"\u005c":1}"#),
    ]) func keysAreComparedByWhatTheyDecodeTo(path: String, document: String) {
        #expect(get(path, document) == "1")
    }

    @Test func keysThatDecodeDifferentlyAreDifferent() {
        #expect(get("e", #"{"\u00e9":1}"#) == .failure(.notFound))
        #expect(get("é", #"{"e\u0301":1}"#) == .failure(.notFound))
        #expect(get("ab", #"{"\u0061":1,"a":2}"#) == .failure(.notFound))
        #expect(get("\u{fffd}", #"{"\ud800":1}"#) == .failure(.notFound))
    }

    @Test func firstOfEqualKeysCounts() {
        #expect(get("a", #"{"a":1,"\u0061":2,"a":3}"#) == "1")
        #expect(Edit(.replace, "a", "9").apply(to: #"{"a":1,"a":2}"#) == #"{"a":9,"a":2}"#)
        #expect(Edit(.delete, "a").apply(to: #"{"a":1,"a":2}"#) == #"{"a":2}"#)
    }

    /// Strings of every length around the widths of words and vectors, with each special byte in every
    /// place, at the end of the memory.
    @Test func stringsOfAnyLengthAreSkipped() {
        for length in 0..<150 {
            let plain = String(repeating: "x", count: length)
            #expect(get("b", "{\"a\":\"\(plain)\",\"b\":1}") == "1")
            #expect(get("a", "{\"a\":\"\(plain)\"}") == .text("\"\(plain)\""))
            #expect(get("b", "{\"a\":[\"\(plain)\",{}],\"b\":1}") == "1")
            #expect(get("a", "{\"a\":\"\(plain)") == .failure(.documentNotJSON))
            #expect(get("a", "{\"a\":[\"\(plain)\"") == .failure(.documentNotJSON))
        }
        for special in [#"\""#, #"\\"#, "]", "}", "{", "[", ",", ":", #"\\\""#, "_", "y", "#"] {
            for place in 0..<70 {
                let text =
                    String(repeating: "x", count: place) + special
                    + String(repeating: "x", count: 70 - place)
                #expect(get("b", "{\"a\":\"\(text)\",\"b\":1}") == "1")
                #expect(get("b", "{\"a\":[{\"\(text)\":\"\(text)\"}],\"b\":1}") == "1")
                #expect(get("[1][0]", "[\"\(text)\",[\"\(text)\"]]") == .text("\"\(text)\""))
            }
        }
    }

    @Test(arguments: [
        "", " ", "hello", "tru", "nul", "{", "}", "]", #"{"a""#, #"{"a":"#, #"{"a":}"#,
        #"{"a":1"#, #"{"a" 1}"#, #"{a:1}"#, #"{"b":1,}"#, #"{"b":1 "a":2}"#, #"{"b":1]"#,
        #"{"b":[}],"a":1}"#, #"{"b":{],"a":1}"#, #"{"b":01,"a":1}"#, #"{"b":1.,"a":1}"#,
        #"{"b":-,"a":1}"#, #"{"b":1e,"a":1}"#, #"{"b":tru,"a":1}"#, #"{"b":"x,"a":1}"#,
        #"{"a":12x}"#, #"{"a":1]"#, #"{"a":"x"#, #"{"a":"x\"#, #"{"\u12":1}"#, #"{"\x":1}"#,
        #"{"b":y,"a":1}"#, #"{"b":[y],"a":1}"#, "\u{0}", #"{"a":[1,2}"#, #"{,"a":1}"#, "-", "\"",
        #"{"a":"#, #"{"a":[[[["#,
    ]) func malformedDocumentIsNotJSON(document: String) {
        #expect(get("a", document) == .failure(.documentNotJSON))
        for operation in EditOperation.allCases where operation != .insert {
            let edit = Edit(operation, "a", "1", makesParents: true)
            #expect(edit.apply(to: document) == .failure(.documentNotJSON))
        }
    }

    @Test func bytesBehindTheValueAreNotRead() {
        #expect(get("a", #"{"a":1,"b":garbage"#) == "1")
        #expect(get("[0]", "[1,]]]") == "1")
    }

    @Test func documentMayBeNested32Deep() {
        #expect(get("a", "{\"b\":\(nested(31, "1")),\"a\":2}") == "2")
        #expect(get("a", "{\"b\":\(nested(32, "1")),\"a\":2}") == .failure(.documentTooDeep))
        #expect(get("b", "{\"b\":\(nested(31, "1"))}") == .text(nested(31, "1")))
        #expect(get("b", "{\"b\":\(nested(32, "1"))}") == .failure(.documentTooDeep))
        #expect(get(firstIndexes(31), nested(32, "1")) == "[1]")
        #expect(get(firstIndexes(31), nested(33, "1")) == .failure(.documentTooDeep))
        #expect(count("", nested(32, "1")) == "1")
        #expect(count("", nested(33, "1")) == .failure(.documentTooDeep))
    }

    @Test func deepGarbageNeitherRecursesNorOverflows() {
        for depth in [64, 65, 10_000, 3_000_000] {
            for bracket in ["[", "{"] {
                let document = "{\"b\":" + String(repeating: bracket, count: depth)
                #expect(get("a", document) == .failure(.documentTooDeep))
            }
        }
    }

    @Test func fieldBehindTwentyMebibytesIsFound() {
        let text = String(repeating: "long text, ", count: 1_000)
        let items = Array(repeating: #"{"t":"\#(text)","n":[1,2,3]}"#, count: 2_000)
        let document = "{\"items\":[" + items.joined(separator: ",") + "],\"a\":\"here\"}"
        #expect(document.utf8.count > 20 << 20)
        #expect(get("a", document) == #""here""#)
        #expect(count("items", document) == "2000")
        #expect(get("items[-1].n[-1]", document) == "3")
    }
}
