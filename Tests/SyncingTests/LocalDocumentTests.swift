import Bytes
import JSON
import SyncWire
import Syncing
import Testing

/// The answers are those that were recorded from Sync Gateway 1.4.1.
@Suite struct LocalDocumentTests {
    private let conflict = LocalDocument.Outcome.refused(Refusal(409, "Document update conflict"))
    private let missing = LocalDocument.Outcome.refused(
        Refusal(404, "No previous revision to replace")
    )

    private func put(
        _ body: String,
        replacing revision: String? = nil,
        existing: LocalDocument? = nil
    ) throws -> LocalDocument.Outcome {
        let body = try #require(JSONValue.parse(body))
        return LocalDocument.put(body, replacing: revision, existing: existing)
    }

    private func stored(_ outcome: LocalDocument.Outcome) throws -> LocalDocument {
        guard case .stored(let document) = outcome else {
            Issue.record("\(outcome)")
            throw Refusal.missing
        }
        return document
    }

    @Test func revisionsCountFromOne() throws {
        let one = try stored(try put("{\"x\":1}"))
        #expect(one.revision == "0-1")
        #expect(try put("{\"x\":2}", existing: one) == conflict)
        let two = try stored(try put("{\"_rev\":\"0-1\",\"x\":2}", existing: one))
        #expect(two.revision == "0-2")
        #expect(try put("{\"_rev\":\"0-1\"}", existing: two) == conflict)
        #expect(try stored(try put("{}", replacing: "0-2", existing: two)).revision == "0-3")
        #expect(try put("{\"_rev\":\"0-1\"}") == missing)
        #expect(try put("[]") == .refused(Refusal(400, "Bad JSON")))
    }

    @Test func deletionNeedsTheRevision() throws {
        let one = try stored(try put("{}"))
        #expect(LocalDocument.delete("0-1", existing: one) == .deleted)
        #expect(LocalDocument.delete("0-2", existing: one) == conflict)
        #expect(LocalDocument.delete(nil, existing: one) == conflict)
        #expect(LocalDocument.delete("0-1", existing: nil) == missing)
    }

    @Test func reservedMembersAreNotStored() throws {
        let body = "{\"b\":1,\"_id\":\"x\",\"a\":{\"_k\":2},\"b\":3,\"_rev\":null,\"\":4}"
        let one = try stored(try put(body))
        let shown = JSONWriter.text { one.write(to: &$0, id: "cp1") }
        let expected = #"{"_id":"_local/cp1","_rev":"0-1","a":{"_k":2},"b":3}"#
        #expect(String(decoding: shown, as: UTF8.self) == expected)
        let plain = JSONWriter.text { one.write(to: &$0) }
        #expect(String(decoding: plain, as: UTF8.self) == #"{"a":{"_k":2},"b":3}"#)
        let again = one.stored.withUnsafeBytes { LocalDocument(stored: ByteView($0)) }
        #expect(again == one)
        let damaged = Array("{\"a\":1}".utf8).withUnsafeBytes {
            LocalDocument(stored: ByteView($0))
        }
        #expect(damaged == nil)
    }
}
