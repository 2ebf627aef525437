import Foundation
import Testing

@Suite struct DocumentTests {
    let docs = "/pools/default/buckets/b/docs"

    @Test func aDocumentIsWrittenReadAndDeletedUnderAnyID() async throws {
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

    @Test func whatIsNoDocumentIsRefused() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for (form, reason) in [
                ("value=%7B", "The value is not valid JSON"),
                ("other=1", "The field value is missing"),
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

    @Test func aPageIsSortedBoundedAndWithContentWhereAskedFor() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for number in 0..<12 {
                _ = await site.plane.write(
                    Array("d\(number)".utf8),
                    value: number == 3 ? [0xff, 0] : Array("{\"n\":\(number)}".utf8),
                    flags: 0,
                    expiry: 0,
                    preserveExpiry: false,
                    inBucket: "b"
                )
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
}
