import Bytes
import Foundation
import JSON
import Testing

@Suite struct WriterTests {
    @Test func writerAddsCommasAndBrackets() {
        let raw = Array("[1,2]".utf8)
        let text = raw.withView { raw in
            JSONWriter.text { json in
                json.object {
                    $0.member("name", "demo")
                    $0.member("count", 3)
                    $0.member("share", 0.5)
                    $0.member("isOpen", true)
                    $0.object("none") { _ in }
                    $0.array("list") {
                        $0.value(-1)
                        $0.null()
                        $0.array { _ in }
                        $0.object { $0.member("x", UInt64.max) }
                        $0.value(.infinity)
                        $0.raw(raw)
                    }
                    $0.member("raw", raw: raw)
                }
            }
        }
        #expect(
            String(decoding: text, as: UTF8.self)
                == #"{"name":"demo","count":3,"share":0.5,"isOpen":true,"none":{},"#
                + #""list":[-1,null,[],{"x":18446744073709551615},null,[1,2]],"raw":[1,2]}"#
        )
    }

    @Test func writtenCharactersAreParsedBack() throws {
        var text = ""
        for scalar in UInt32(0)...0x2ff {
            text.unicodeScalars.append(Unicode.Scalar(scalar) ?? " ")
        }
        text += "\u{2028}\u{fffd}\u{10ffff}𝄞"
        let bytes = JSONWriter.text { $0.value(text) }
        let byFoundation = try JSONSerialization.jsonObject(
            with: Data(bytes),
            options: .fragmentsAllowed
        )
        #expect(byFoundation as? String == text)
        #expect(bytes.withView { JSONValue.parse($0) } == .string(text))
        #expect(bytes.withView { JSONValidator().isDocument($0) })
    }

    @Test func illFormedKeyIsRepaired() {
        let key: [UInt8] = [0x61, 0xff, 0xed, 0xa0, 0x80, 0x22]
        let bytes = key.withView { key in JSONWriter.text { $0.value(utf8: key) } }
        #expect(bytes.withView { JSONValidator().isDocument($0) })
        #expect(
            bytes.withView { JSONValue.parse($0) } == .string(String(decoding: key, as: UTF8.self))
        )
    }

    /// A string repairs, and ASCII is written without one.
    @Test func utf8BytesAreWrittenLikeStrings() {
        let ascii = String(decoding: UInt8(0)...0x7f, as: UTF8.self)
        for text in ["", "a", ascii, "\"\\\n", "é", ascii + "é", "𝄞\u{7f}"] {
            let key = Array(text.utf8)
            let bytes = key.withView { key in
                JSONWriter.text { json in
                    json.array {
                        $0.value(utf8: key)
                        $0.value(utf8: key)
                    }
                }
            }
            let expected = JSONWriter.text { json in
                json.array {
                    $0.value(text)
                    $0.value(text)
                }
            }
            #expect(bytes == expected)
        }
    }

    @Test func writtenDoublesAreParsedBackExactly() {
        let numbers = [
            0.1, -1e300, .leastNonzeroMagnitude, 1e16, 123_456.75, Double.pi,
            .greatestFiniteMagnitude,
        ]
        for number in numbers {
            let bytes = JSONWriter.text { $0.value(number) }
            #expect(bytes.withView { JSONValue.parse($0) }?.double == number)
        }
    }

    @Test func writtenTreeIsParsedBackEqual() throws {
        let text =
            #"{"a":[1,-2,18446744073709551615,2.5,1e2],"b":null,"a":"last","c":{"d":[true,false]}}"#
        let tree = try #require(JSONValue.parse(text))
        #expect(tree["a"]?.string == "last")
        #expect(tree.members?.count == 4)
        #expect(tree.members?[0].value.array?[2] == .unsigned(.max))
        #expect(tree.members?[0].value.array?[2].int == nil)
        #expect(tree.members?[0].value.array?[1] == .integer(-2))
        #expect(tree.members?[0].value.array?[4].double == 100)
        #expect(tree["b"]?.isNull == true)
        #expect(tree["c"]?["d"]?.array?.map(\.bool) == [true, false])
        #expect(tree["missing"] == nil)
        let again = JSONWriter.text { $0.value(tree) }
        #expect(again.withView { JSONValue.parse($0) } == tree)
    }

    @Test func escapesAreDecoded() {
        #expect(
            JSONValue.parse(#""\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac""#)
                == .string("\"\\/\u{8}\u{c}\n\r\tAé€")
        )
        #expect(JSONValue.parse(#""x\ud834\udd1ey""#) == .string("x𝄞y"))
        #expect(JSONValue.parse(#""\ud834x""#) == .string("\u{fffd}x"))
        #expect(JSONValue.parse(#""\udd1e\ud834\ud834\udd1e""#) == .string("\u{fffd}\u{fffd}𝄞"))
    }
}
