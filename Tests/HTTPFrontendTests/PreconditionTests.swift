import Foundation
import Testing

/// Changes that name the version that their author has read; each is refused if the object has another one.
@Suite struct PreconditionTests {
    /// The version that a reply to GET shows, in quotation marks.
    private static func version(_ site: Site, _ path: String) async throws -> String {
        let reply = try await site.ask("GET \(path)")
        return try #require(reply.headers["etag"], "\(path): \(reply.text)")
    }

    @Test func writeOfDocumentThatChangedMeanwhileIsRefused() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let path = "/pools/default/buckets/b/docs/d"
            let new = ["If-None-Match: *"]
            #expect(try await site.ask("POST \(path)", headers: new, form: "value=1").status == 200)
            let second = try await site.ask("POST \(path)", headers: new, form: "value=2")
            #expect(second.status == 412)
            #expect(second.object["error"] as? String == "precondition_failed")

            let read = ["If-Match: \(try await Self.version(site, path))"]
            #expect(
                try await site.ask("POST \(path)", headers: read, form: "value=3").status == 200
            )
            // The version is no longer the present one.
            #expect(
                try await site.ask("POST \(path)", headers: read, form: "value=4").status == 412
            )
            #expect(try await site.ask("DELETE \(path)", headers: read).status == 412)
            #expect(try await site.ask("GET \(path)").object["json"] as? String == "3")
            // Without a precondition the last write wins, as before.
            #expect(try await site.ask("POST \(path)", form: "value=5").status == 200)
            let last = ["If-Match: \(try await Self.version(site, path))"]
            #expect(try await site.ask("DELETE \(path)", headers: last).status == 200)
            #expect(
                try await site.ask("POST \(path)", headers: last, form: "value=6").status == 412
            )
        }
    }

    @Test func versionOfDocumentIsItsRevision() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            await site.write("d", Array("1".utf8))
            let path = "/pools/default/buckets/b/docs/d"
            let meta = try await site.ask("GET \(path)").object["meta"] as? [String: Any]
            let revision = try #require(meta?["rev"] as? String)
            #expect(try await Self.version(site, path) == "\"\(revision)\"")
        }
    }

    @Test(arguments: [
        "If-Match: *", "If-Match: \"a\", \"b\"", "If-Match: W/\"a\"", "If-Match: a",
        "If-None-Match: \"a\"",
    ])
    func unsupportedPreconditionIsRefusedInsteadOfIgnored(_ field: String) async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for (line, form) in [
                ("POST /pools/default/buckets/b/docs/d", "value=1"),
                ("DELETE /pools/default/buckets/b/docs/d", ""),
                ("POST /pools/default/buckets/b", "flushEnabled=1"),
                ("PUT /settings/rbac/users/local/ann", "roles=admin&password=secret"),
            ] {
                let reply = try await site.ask(line, headers: [field], form: form)
                #expect(reply.status == 400, "\(line)")
                #expect(reply.text.contains("If-Match"), "\(line): \(reply.text)")
            }
        }
    }

    @Test func changeOfBucketThatChangedMeanwhileIsRefused() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let path = "/pools/default/buckets/b"
            let read = ["If-Match: \(try await Self.version(site, path))"]
            let first = try await site.ask("POST \(path)", headers: read, form: "flushEnabled=1")
            #expect(first.status == 200)
            let second = try await site.ask("POST \(path)", headers: read, form: "ramQuota=200")
            #expect(second.status == 412)
            #expect((second.object["errors"] as? [String: String])?["_"] != nil)
            let quota = try await site.ask("GET \(path)").object["quota"] as? [String: Any]
            #expect(quota?["rawRAM"] as? Int == 100 << 20)
        }
    }

    @Test func changeOfUserThatChangedMeanwhileIsRefused() async throws {
        try await Site.with { site in
            let path = "/settings/rbac/users/local/ann"
            let new = ["If-None-Match: *"]
            let form = "roles=ro_admin&password=secret"
            #expect(try await site.ask("PUT \(path)", headers: new, form: form).status == 200)
            #expect(try await site.ask("PUT \(path)", headers: new, form: form).status == 412)
            let read = ["If-Match: \(try await Self.version(site, path))"]
            let first = try await site.ask(
                "PUT \(path)",
                headers: read,
                form: "roles=cluster_admin"
            )
            #expect(first.status == 200)
            let second = try await site.ask("PUT \(path)", headers: read, form: "roles=admin")
            #expect(second.status == 412)
            #expect(try await site.ask("GET \(path)").text.contains("cluster_admin"))
            #expect(try await site.ask("DELETE \(path)").status == 200)
            let gone = try await site.ask("PUT \(path)", headers: read, form: form)
            #expect(gone.status == 412)
        }
    }

    @Test func changeOfDesignDocumentThatChangedMeanwhileIsRefused() async throws {
        try await ViewSite.with { views in
            let body = DesignDocumentTests.body
            let new = ["If-None-Match: *"]
            #expect(try await views.ask("PUT /b/_design/d", headers: new, json: body).status == 201)
            let second = try await views.ask("PUT /b/_design/d", headers: new, json: body)
            #expect(second.status == 412)
            #expect(second.object["error"] as? String == "precondition_failed")
            let read = try await views.ask("GET /b/_design/d").headers["etag"]
            let present = ["If-Match: \(try #require(read))"]
            let other = ["If-Match: \"9-12345678\""]
            #expect(
                try await views.ask("PUT /b/_design/d", headers: other, json: body).status == 412
            )
            #expect(try await views.ask("DELETE /b/_design/d", headers: other).status == 412)
            #expect(
                try await views.ask("DELETE /b/_design/d", headers: ["If-Match: *"]).status == 400
            )
            #expect(try await views.ask("DELETE /b/_design/d", headers: present).status == 200)
        }
    }
}
