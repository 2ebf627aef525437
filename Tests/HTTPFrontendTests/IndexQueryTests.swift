import HTTPFrontend
import Indexing
import Testing

/// What a view query's parameters mean, from the query string and from the body.
@Suite struct IndexQueryTests {
    private func query(
        _ parameters: [(String, ViewParameter.Value)],
        hasReduce: Bool = false
    ) throws(QueryRefusal) -> ViewQuery {
        let request = ViewRequest(
            bucket: "b",
            designDocument: "d",
            view: "v",
            parameters: parameters.map { ViewParameter(name: $0.0, value: $0.1) }
        )
        return try IndexQueries.query(request, hasReduce: hasReduce)
    }

    private func json(_ text: String) -> ViewParameter.Value { .json(Array(text.utf8)) }

    private func refusal(_ parameters: [(String, ViewParameter.Value)]) -> QueryRefusal? {
        do throws(QueryRefusal) {
            _ = try query(parameters)
            return nil
        } catch {
            return error
        }
    }

    @Test func stringMembersOfBodyEqualParametersWithoutQuotes() throws {
        let body = try query([
            ("stale", json("\"ok\"")), ("limit", json("7")), ("descending", json("true")),
            ("startkey_docid", json("\"a\\u0062\"")), ("startkey", json("\"k\"")),
        ])
        let text = try query([
            ("stale", .text("ok")), ("limit", .text("7")), ("descending", .text("true")),
            ("startkey_docid", .text("ab")), ("startkey", .text("\"k\"")),
        ])
        #expect(body == text)
        #expect(body.selection.startKey != nil)
        #expect(body.selection.startDocumentID == Array("ab".utf8))
    }

    @Test func keysOfABodyReplaceThoseOfTheQueryString() throws {
        let both = try query([("keys", .text("[1]")), ("keys", json("[2, 3]"))])
        #expect(both.selection.keys?.count == 2)
        #expect(try query([("keys", .text("[1]"))]).selection.keys?.count == 1)
    }

    @Test func refusalStatesWhetherKeysWereAMemberOrAParameter() {
        #expect(refusal([("keys", json("1"))])?.reason == "`keys` member must be a array.")
        let reason = "`keys` parameter is not an array."
        #expect(refusal([("keys", .text("1"))])?.reason == reason)
    }

    @Test func reduceOfAMapViewIsRefused() {
        let refused = refusal([("reduce", .text("true"))])
        #expect(refused?.status == 400)
        #expect(refused?.error == "query_parse_error")
    }
}
