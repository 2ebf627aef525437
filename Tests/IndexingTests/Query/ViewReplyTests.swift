import Bytes
import Indexing
import JSON
import Testing
import Vocabulary

@Suite struct ViewReplyTests {
    static func reply(_ body: (inout ViewReply) -> Void) -> String {
        let output = ByteWriter()
        var reply = ViewReply(output)
        body(&reply)
        return output.view.text
    }

    static func append(
        _ row: TestRow,
        to reply: inout ViewReply,
        document: ViewReply.IncludedDocument = .none,
        origin: ViewReply.RowOrigin? = nil,
        isWritten: Bool = true
    ) {
        let outcome = row.key.borrowed { key in
            row.value.borrowed { value in
                let view = RowBatch.Row(
                    keyNumber: row.keyNumber,
                    vBucket: VBucketID(row.vBucket),
                    key: key,
                    value: value
                )
                return reply.appendRow(view, document: document, origin: origin)
            }
        }
        #expect(outcome == isWritten)
    }

    static func append(
        group: [UInt8],
        value: String,
        to reply: inout ViewReply,
        isWritten: Bool = true
    ) {
        let outcome = group.borrowed { group in
            Array(value.utf8).borrowed { reply.appendReduction(group: group, value: $0) }
        }
        #expect(outcome == isWritten)
    }

    static func row(_ json: String, id: String, value: String) -> TestRow {
        let key = rowKey(sortKey(json), id: Array(id.utf8), ordinal: 7)
        return TestRow(key: key, value: Array(value.utf8))
    }

    static func sortKey(_ json: String) -> [UInt8] {
        let output = ByteWriter()
        let outcome = Array(json.utf8).borrowed { text in
            (try? Collation())?.appendSortKey(ofJSON: text, to: output)
        }
        #expect(outcome == .appended)
        return output.bytes
    }

    static func rowKey(_ sortKey: [UInt8], id: [UInt8], ordinal: UInt16 = 0) -> [UInt8] {
        let output = ByteWriter()
        sortKey.borrowed { sortKey in
            id.borrowed { RowKey.append(sortKey: sortKey, id: $0, ordinal: ordinal, to: output) }
        }
        return output.bytes
    }

    @Test func rowsHaveCouchbasesForm() {
        let text = Self.reply { reply in
            reply.start(totalRows: 7)
            Self.append(Self.row("[1,\"x\"]", id: "a", value: "null"), to: &reply)
            Self.append(Self.row("2", id: "b", value: "{\"c\":1}"), to: &reply)
            reply.finish()
        }
        let expected =
            "{\"total_rows\":7,\"rows\":[\r\n{\"id\":\"a\",\"key\":[1,\"x\"],\"value\":null},\r\n"
            + "{\"id\":\"b\",\"key\":2,\"value\":{\"c\":1}}\r\n]\r\n}\n"
        #expect(text == expected)
    }

    @Test func reductionHasNoTotalRows() {
        let text = Self.reply { reply in
            reply.start(totalRows: nil)
            Self.append(group: [], value: "42", to: &reply)
            Self.append(group: Self.sortKey("[\"a\"]"), value: "42", to: &reply)
            reply.finish()
        }
        let expected =
            "{\"rows\":[\r\n{\"key\":null,\"value\":42},\r\n"
            + "{\"key\":[\"a\"],\"value\":42}\r\n]\r\n}\n"
        #expect(text == expected)
    }

    @Test func emptyAnswerHasAnEmptyArray() throws {
        let text = Self.reply { reply in
            reply.start(totalRows: 0)
            reply.finish()
        }
        #expect(try #require(JSONValue.parse(text))["rows"] == .array([]))
    }

    @Test func debugInformationPrecedesRowsAndErrorsFollow() throws {
        let meta = Array("{\"id\":\"a\"}".utf8)
        let json = Array("{\"x\":[1]}".utf8)
        let info = Array("{\"local\":{}}".utf8)
        let text = Self.reply { reply in
            info.borrowed { reply.start(totalRows: 2, debugInfo: $0) }
            meta.borrowed { meta in
                json.borrowed { json in
                    let document = ViewReply.IncludedDocument.found(meta: meta, body: json)
                    let origin = ViewReply.RowOrigin(vBucket: VBucketID(5), node: "n:8092")
                    let row = Self.row("1", id: "a", value: "1")
                    Self.append(row, to: &reply, document: document, origin: origin)
                }
            }
            Self.append(Self.row("1", id: "b", value: "1"), to: &reply, document: .missing)
            reply.finish(errors: [("http://h:8092/", "a \"reason\""), ("local", "other")])
        }
        let answer = try #require(JSONValue.parse(text))
        let names = answer.members?.map(\.name)
        #expect(names == ["debug_info", "total_rows", "rows", "errors"])
        let rows = try #require(answer["rows"]?.array)
        #expect(rows[0].members?.map(\.name) == ["id", "key", "partition", "node", "value", "doc"])
        #expect(rows[0]["doc"]?["json"]?["x"]?.array == [.integer(1)])
        #expect(rows[1]["doc"] == .null)
        let reasons = answer["errors"]?.array?.map { $0["reason"]?.string }
        #expect(reasons == ["a \"reason\"", "other"])
    }

    @Test(arguments: [
        (#"{"id":"type","type":"json"}"#, #"{"x":1}"#, "json"),
        (#"{"id":"base64","type":"json"}"#, "\"base64\"", "json"),
        (#"{"id":"a","flags":0,"type":"base64"}"#, "\"AAA=\"", "base64"),
    ]) func bodyIsNamedByTheTypeOfItsDocument(meta: String, body: String, name: String) throws {
        let text = Self.reply { reply in
            reply.start(totalRows: 1)
            Array(meta.utf8).borrowed { meta in
                Array(body.utf8).borrowed { body in
                    let row = Self.row("1", id: "a", value: "1")
                    Self.append(row, to: &reply, document: .found(meta: meta, body: body))
                }
            }
            reply.finish()
        }
        let document = try #require(JSONValue.parse(text))["rows"]?.array?.first?["doc"]
        #expect(document?.members?.map(\.name) == ["meta", name])
        #expect(document?[name] == JSONValue.parse(body))
    }

    @Test func malformedRowIsNotWritten() {
        let null = Self.sortKey("null")
        let text = Self.reply { reply in
            reply.start(totalRows: nil)
            for key: [UInt8] in [
                [], [0x99], null, null + [0x61], null + [0], null + [1, 3, 0, 0, 0],
            ] {
                Self.append(TestRow(key: key), to: &reply, isWritten: false)
            }
            Self.append(group: null + null, value: "", to: &reply, isWritten: false)
            reply.finish()
        }
        #expect(text == "{\"rows\":[\r\n]\r\n}\n")
    }

    /// Every ID comes back from its escaped form; ill-formed UTF-8 is repaired.
    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func answerOfRandomRowsIsJSON(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var ids: [[UInt8]] = []
        let text = Self.reply { reply in
            reply.start(totalRows: 100)
            for number in 0..<100 {
                let id = (0..<Int.random(in: 0...6, using: &random)).map { _ in
                    [0, 1, 2, 0x22, 0x5c, 0x0a, 0x61, 0xc3, 0xa9, 0xff].randomElement(
                        using: &random
                    )
                        ?? UInt8(0)
                }
                ids.append(id)
                let key = Self.rowKey(Self.sortKey("\(number)"), id: id)
                Self.append(TestRow(key: key, value: [0x30]), to: &reply)
            }
            reply.finish()
        }
        let rows = try #require(JSONValue.parse(text)?["rows"]?.array, "seed \(seed)")
        #expect(rows.map { $0["key"]?.int } == (0..<100).map { $0 })
        let expected = ids.map { String(decoding: $0, as: UTF8.self) }
        #expect(rows.map { $0["id"]?.string } == expected, "seed \(seed)")
    }
}
