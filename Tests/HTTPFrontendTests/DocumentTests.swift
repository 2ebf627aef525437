import Bytes
import Foundation
import Testing
import Vocabulary

@Suite struct DocumentTests {
    let docs = "/pools/default/buckets/b/docs"

    @Test func documentWithAnyIDIsWrittenReadAndDeleted() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for id in ["plain", "with%2Fslash%20and%3F", "%C3%A9%F0%9F%98%80", "a%25b", "+"] {
                let value = "%7B%22n%22%3A%2012345678901234567890%7D"
                let written = try await site.ask("POST \(docs)/\(id)", form: "value=\(value)")
                #expect(written.status == 200, "\(id): \(written.text)")
                #expect(written.text == "[]")
                let read = try await site.ask("GET \(docs)/\(id)").object
                #expect(read["json"] as? String == "{\"n\": 12345678901234567890}")
                let meta = try #require(read["meta"] as? [String: Any])
                #expect(meta["id"] as? String == id.removingPercentEncoding)
                #expect(meta["flags"] as? Int == 33_554_432)
                #expect(meta["expiration"] as? Int == 0)
                #expect((meta["rev"] as? String)?.hasPrefix("1-") == true)
                #expect(try await site.ask("DELETE \(docs)/\(id)").text == "[]")
                let gone = try await site.ask("GET \(docs)/\(id)")
                #expect(gone.status == 404)
                #expect(gone.body.isEmpty)
            }
        }
    }

    @Test func invalidDocumentRequestIsRefused() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for (form, reason) in [
                (
                    "value=1&other=1",
                    "other: Unsupported key: this request has value, flags, expiry, preserveTTL"
                ),
                ("flags=1", "The field value is missing"),
                ("value=1&expiry=x", "flags and expiry are numbers of 32 bits"),
            ] {
                let reply = try await site.ask("POST \(docs)/x", form: form)
                #expect(reply.status == 400)
                #expect(
                    reply.json as? [String: String] == ["error": "bad_request", "reason": reason]
                )
            }
            let long = String(repeating: "k", count: 251)
            #expect(try await site.ask("POST \(docs)/\(long)", form: "value=1").status == 400)
            let type = try await site.ask("POST \(docs)/x", headers: ["Content-Type: text/plain"])
            #expect(type.status == 400)
            let bucket = try await site.ask("GET /pools/default/buckets/none/docs")
            #expect(bucket.text == notFound)
        }
    }

    @Test func pageIsSortedAndBoundedAndHasContentIfRequested() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for number in 0..<12 {
                let value = number == 3 ? [0xff, 0] : Array("{\"n\":\(number)}".utf8)
                await site.write("d\(number)", value)
            }
            func ids(_ query: String) async throws -> [String] {
                let reply = try await site.ask("GET \(docs)?\(query)")
                let rows = reply.object["rows"] as? [[String: Any]]
                return rows?.compactMap { $0["id"] as? String } ?? ["\(reply.status)"]
            }
            #expect(
                try await ids("") == [
                    "d0", "d1", "d10", "d11", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9",
                ]
            )
            #expect(try await ids("skip=2&limit=2") == ["d10", "d11"])
            #expect(try await ids("startkey=%22d7%22&endkey=%22d9%22") == ["d7", "d8", "d9"])
            #expect(
                try await ids("startkey=%22d7%22&endkey=%22d9%22&inclusive_end=false") == [
                    "d7", "d8",
                ]
            )
            for wrong in ["limit=1001", "limit=-1", "skip=x", "startkey=d7"] {
                #expect(try await ids(wrong) == ["400"])
            }
            let full = try await site.ask("GET \(docs)?startkey=%22d2%22&limit=2&include_docs=true")
            let rows = try #require(full.object["rows"] as? [[String: Any]])
            let contents = rows.map { $0["doc"] as? [String: Any] }
            #expect(contents[0]?["json"] as? [String: Int] == ["n": 2])
            #expect(contents[1]?["base64"] as? String == "/wA=")
        }
    }

    @Test func pageOfLargeDocumentsIsComplete() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let size = 4 << 20
            let value = [UInt8(ascii: "\"")] + [UInt8](repeating: 0x78, count: size) + [0x22]
            let count = 20
            for number in 10..<10 + count { await site.write("d\(number)", value) }
            let reply = try await site.ask("GET \(docs)?include_docs=true")
            let rows = try #require(reply.object["rows"] as? [[String: Any]])
            #expect(rows.count == count)
            let sizes = rows.map { row in
                ((row["doc"] as? [String: Any])?["json"] as? String)?.utf8.count
            }
            #expect(sizes == Array(repeating: size, count: count))
            #expect(rows.allSatisfy { $0["error"] == nil })
        }
    }

    @Test func rowAfterTheByteLimitHasAnError() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for number in 0..<4 { await site.write("d\(number)", Array("\"123\(number)\"".utf8)) }
            func errors(_ query: String) async throws -> [String?] {
                let reply = try await site.ask("GET \(docs)?include_docs=true&\(query)")
                let rows = reply.object["rows"] as? [[String: Any]]
                return rows?.map { row in
                    #expect((row["doc"] == nil) == (row["error"] != nil))
                    return row["error"] as? String
                } ?? ["\(reply.status)"]
            }
            #expect(try await errors("docs_bytes=7") == [nil, nil, "not_included", "not_included"])
            #expect(try await errors("docs_bytes=24") == [nil, nil, nil, nil])
            #expect(try await errors("docs_bytes=0") == Array(repeating: "not_included", count: 4))
            #expect(try await errors("docs_bytes=x") == ["400"])
            #expect(try await errors("startkey=%22d3%22&docs_bytes=1") == [nil])
        }
    }

    @Test func rowOfAnUnreadableDocumentHasAnError() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for number in 0..<8 { await site.write("d\(number)", Array("1".utf8)) }
            site.plane.unreadable.withLock { $0 = ["d1", "d3", "d4"] }
            let reply = try await site.ask("GET \(docs)?include_docs=true")
            let rows = try #require(reply.object["rows"] as? [[String: Any]])
            let failed = "retry_needed"
            // After three failures the remaining documents are not read.
            #expect(
                rows.map { $0["error"] as? String } == [
                    nil, failed, nil, failed, failed, failed, failed, failed,
                ]
            )
            #expect((rows[1]["reason"] as? String)?.contains("does not answer") == true)
            site.plane.unreadable.withLock { $0 = [] }
            let again = try await site.ask("GET \(docs)?include_docs=true").object
            let whole = again["rows"] as? [[String: Any]]
            #expect(whole?.compactMap { $0["doc"] as? [String: Any] }.count == 8)
        }
    }

    @Test func outcomeOfAnotherRequestIsAnsweredWith500() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            await site.write("d", Array("1".utf8))
            let found = DocumentOutcome.found(DocumentCopy(meta: DocumentMeta(), value: [0x31]))
            let written = DocumentOutcome.written(
                DocumentVersion(cas: CAS(1), uuid: VBucketUUID(1), seqno: Seqno(1))
            )
            for (request, form, outcomes) in [
                ("GET", "", [written, .unchanged, .refused(.notLocked), .refused(.exists)]),
                ("POST", "value=1", [found, .refused(.notANumber), .refused(.exists)]),
                ("DELETE", "", [found, .refused(.notStored), .refused(.exists)]),
            ] {
                for outcome in outcomes {
                    site.plane.outcome.withLock { $0 = outcome }
                    let reply = try await site.ask("\(request) \(docs)/d", form: form)
                    #expect(reply.status == 500, "\(request) \(outcome): \(reply.text)")
                    #expect(reply.object["error"] as? String == "failed")
                }
            }
            site.plane.outcome.withLock { $0 = written }
            let page = try await site.ask("GET \(docs)?include_docs=true")
            let rows = try #require(page.object["rows"] as? [[String: Any]])
            #expect(rows.map { $0["error"] as? String } == ["failed"])
            // The process did not crash, and the route still serves requests.
            site.plane.outcome.withLock { $0 = nil }
            #expect(try await site.ask("GET \(docs)/d").object["json"] as? String == "1")
        }
    }
}
