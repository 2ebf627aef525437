import Bytes
import ClusterService
import Foundation
import HTTPFrontend
import Orchestration
import Testing
import Vocabulary

/// Design documents on the view port.
@Suite struct DesignDocumentTests {
    static let body = "{\"views\":{\"v\":{\"map\":\"function (doc, meta) { emit(meta.id); }\"}}}"
    static let missing = "{\"error\":\"not_found\",\"reason\":\"missing\"}"

    @Test func designDocumentIsCreatedReadAndDeleted() async throws {
        try await ViewSite.with { views in
            let put = try await views.ask("PUT /b/_design/d", json: Self.body)
            #expect(put.statusLine == "HTTP/1.1 201 Created")
            #expect(put.text == "{\"ok\":true,\"id\":\"_design/d\"}")
            #expect(put.headers["location"] == "http://127.0.0.1:\(views.port)/b/_design/d")
            let get = try await views.ask("GET /b/_design/d")
            #expect(get.statusLine == "HTTP/1.1 200 OK")
            #expect(get.text == Self.body)
            let delete = try await views.ask("DELETE /b/_design/d")
            #expect(delete.statusLine == "HTTP/1.1 200 OK")
            #expect(delete.text == "{\"ok\":true,\"id\":\"_design/d\"}")
            let gone = try await views.ask("GET /b/_design/d")
            #expect(gone.statusLine == "HTTP/1.1 404 Object Not Found")
            #expect(gone.text == "{\"error\":\"not_found\",\"reason\":\"missing\"}")
            let again = try await views.ask("DELETE /b/_design/d")
            #expect(again.statusLine == "HTTP/1.1 404 Object Not Found")
            #expect(again.text == Self.missing)
        }
    }

    @Test func designDocumentHasItsMetadataAndNotTheAdminPortsHeaders() async throws {
        try await ViewSite.with { views in
            _ = try await views.ask("PUT /b/_design/d", json: Self.body)
            let revision = DesignDocument(name: "d", body: Array(Self.body.utf8), number: 1)
                .revision
            let meta = "{\"id\":\"_design/d\",\"rev\":\"\(revision)\",\"type\":\"json\"}"
            for method in ["GET", "HEAD"] {
                let reply = try await views.ask("\(method) /b/_design/d")
                #expect(reply.statusLine == "HTTP/1.1 200 OK")
                #expect(reply.headers["x-couchbase-meta"] == meta)
                #expect(reply.headers["cache-control"] == "must-revalidate")
                #expect(reply.headers["content-type"] == "application/json")
                #expect(reply.headers["content-length"] == "\(Self.body.utf8.count)")
                #expect(reply.headers["server"] == "Couchbase Server")
                for absent in ["pragma", "expires", "x-frame-options"] {
                    #expect(reply.headers[absent] == nil)
                }
            }
        }
    }

    @Test func headSendsNoBody() async throws {
        try await ViewSite.with { views in
            _ = try await views.ask("PUT /b/_design/d", json: Self.body)
            let text =
                views.request("HEAD /b/_design/d") + views.request("HEAD /b/_design/absent")
                + views.request("GET /")
            let port = views.port
            let lines = try await apart {
                let client = try RawClient(port: port)
                try client.send(text)
                return try [
                    client.response(toHead: true).statusLine,
                    client.response(toHead: true).statusLine, client.response().statusLine,
                ]
            }
            #expect(
                lines == ["HTTP/1.1 200 OK", "HTTP/1.1 404 Object Not Found", "HTTP/1.1 200 OK"]
            )
        }
    }

    @Test(arguments: [
        ("/b/_design/dev_d", "dev_d"), ("/b/_design/a%2Fb", "a/b"), ("/b/_design%2Fd", "d"),
        ("/b/_design%2Fdev_a%2Fb", "dev_a/b"), ("/b/_design/%C3%A9", "é"),
        ("//b//_design/x%20y/", "x y"),
    ])
    func nameIsDecodedOnceAfterThePathIsSplit(path: String, name: String) async throws {
        try await ViewSite.with { views in
            let put = try await views.ask("PUT \(path)", json: Self.body)
            #expect(put.status == 201)
            #expect(put.object["id"] as? String == "_design/\(name)")
            let names = views.documents.documents(ofBucket: "b")?.map(\.name)
            #expect(names == [name])
            let get = try await views.ask("GET \(path)")
            #expect(get.text == Self.body)
            let meta = try #require(get.headers["x-couchbase-meta"])
            #expect(meta.contains("\"_design/\(name)\""))
            #expect(try await views.ask("DELETE \(path)").status == 200)
        }
    }

    @Test func bucketMayBeNamedWithItsUUID() async throws {
        try await ViewSite.with { views in
            let bucket = views.site.service.state.buckets.first
            let uuid = try #require(bucket?.settings.uuid)
            let put = try await views.ask("PUT /b%2B\(uuid)/_design/d", json: Self.body)
            #expect(put.status == 201)
            #expect(try await views.ask("GET /b+\(uuid)/_design/d").text == Self.body)
            let other = String(repeating: "0", count: 32)
            for line in ["GET /b%2B\(other)/_design/d", "DELETE /b%2B\(other)/_design/d"] {
                let reply = try await views.ask(line)
                #expect(reply.statusLine == "HTTP/1.1 404 Object Not Found")
                #expect(reply.text == "{\"error\":\"not_found\",\"reason\":\"uuids_dont_match\"}")
            }
            #expect(try await views.ask("GET /b/_design/d").status == 200)
        }
    }

    @Test(arguments: ["GET", "PUT", "DELETE"])
    func unknownBucketIsNotFound(method: String) async throws {
        try await ViewSite.with { views in
            let json = method == "PUT" ? Self.body : nil
            let reply = try await views.ask("\(method) /absent/_design/d", json: json)
            #expect(reply.statusLine == "HTTP/1.1 404 Object Not Found")
            #expect(reply.text == Self.missing)
        }
    }

    @Test func refusalOfADocumentIsSentWithItsErrorAndReason() async throws {
        try await ViewSite.with { views in
            let wrong = try await views.ask("PUT /b/_design/d", json: "[]")
            #expect(wrong.statusLine == "HTTP/1.1 400 Bad Request")
            #expect(
                wrong.text == "{\"error\":\"invalid_design_document\",\"reason\":\"Not an object\"}"
            )
            let type = try await views.ask(
                "PUT /b/_design/d",
                headers: ["Content-Type: text/plain", "Content-Length: 0"]
            )
            #expect(type.statusLine == "HTTP/1.1 415 Unsupported Media Type")
            #expect(type.object["error"] as? String == "bad_content_type")
            let errors: [(AdministrationError, Int)] = [(.busy("x"), 503), (.failed("x"), 500)]
            for (error, status) in errors {
                views.documents.failure.withLock { $0 = error }
                let reply = try await views.ask("PUT /b/_design/d", json: Self.body)
                #expect(reply.status == status)
                #expect(reply.object["reason"] as? String == "x")
                #expect((reply.headers["retry-after"] != nil) == (status == 503))
            }
        }
    }

    @Test func generalRoutesAnswerAsCouchDBDoes() async throws {
        try await ViewSite.with { views in
            let root = try await views.ask("GET /", .none)
            #expect(root.text == "{\"couchdb\":\"Welcome\",\"version\":\"7.6.2-0000-enterprise\"}")
            let all = try await views.ask("GET /b/_all_docs?limit=1")
            #expect(all.statusLine == "HTTP/1.1 400 Bad Request")
            let reason = "_all_docs is no longer supported"
            #expect(all.text == "{\"error\":\"bad_request\",\"reason\":\"\(reason)\"}")
            let spatial = try await views.ask("GET /b/_design/d/_spatial/v?bbox=0,0,1,1")
            #expect(spatial.status == 400)
            #expect(spatial.object["reason"] as? String == "Spatial views are not supported")
            let nothing = try await views.ask("GET /b/nothing/here/at/all")
            #expect(nothing.statusLine == "HTTP/1.1 404 Object Not Found")
            #expect(nothing.text == Self.missing)
            let method = try await views.ask("POST /b/_design/d", json: Self.body)
            #expect(method.statusLine == "HTTP/1.1 405 Method Not Allowed")
            #expect(method.headers["allow"] == "DELETE, GET, HEAD, PUT")
            #expect(method.object["error"] as? String == "method_not_allowed")
            // The routes of the admin port do not exist here.
            #expect(try await views.ask("GET /pools/default").status == 404)
        }
    }
}
