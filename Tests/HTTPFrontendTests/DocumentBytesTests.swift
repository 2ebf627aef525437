import Bytes
import Foundation
import Testing

/// Keys and values that are not UTF-8.
@Suite struct DocumentBytesTests {
    let docs = "/pools/default/buckets/b/docs"

    @Test func formValueThatIsNotUTF8IsStoredByteForByte() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let form = "value=%FF%FE%00%2B+&flags=0"
            #expect(try await site.ask("POST \(docs)/k", form: form).status == 200)
            let value = site.plane.buckets.withLock { $0["b"]?.documents[Array("k".utf8)]?.value }
            #expect(value == [0xff, 0xfe, 0x00, 0x2b, 0x20])
            #expect(try await site.ask("GET \(docs)/k").object["base64"] as? String == "//4AKyA=")
            // The flags of JSON do not require a JSON value.
            for (form, bytes) in [
                ("%FF%FE%00", [0xff, 0xfe, 0x00]), ("%22%FF%22", [0x22, 0xff, 0x22]),
            ] {
                #expect(try await site.ask("POST \(docs)/k", form: "value=\(form)").status == 200)
                let plain = site.plane.buckets.withLock {
                    $0["b"]?.documents[Array("k".utf8)]?.value
                }
                #expect(plain == bytes.map(UInt8.init))
            }
        }
    }

    @Test func documentFormFieldThatIsNotUTF8IsRefusedByName() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for (form, field) in [("value=1&flags=%FF", "flags"), ("value=1&%FF=1", "%FF")] {
                let reply = try await site.ask("POST \(docs)/k", form: form)
                #expect(reply.status == 400)
                let reason = reply.object["reason"] as? String ?? ""
                #expect(reason.contains(field) && reason.contains("UTF-8"), "\(reason)")
            }
            #expect(try await site.ask("GET \(docs)/k").status == 404)
        }
    }

    @Test func keysThatAreNotUTF8AreDistinctAndListedPercentEncoded() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            // Substituting the replacement character would make all three the same key.
            let paths = ["%FFa", "%FEa", "%EF%BF%BDa"]
            for path in paths {
                let form = "value=%22\(path.replacing("%", with: ""))%22"
                #expect(try await site.ask("POST \(docs)/\(path)", form: form).status == 200)
            }
            let page = try await site.ask("GET \(docs)?include_docs=true")
            let rows = try #require(page.object["rows"] as? [[String: Any]])
            #expect(rows.map { $0["id"] as? String } == ["\u{FFFD}a", nil, nil])
            #expect(rows.map { $0["encodedId"] as? String } == [nil, "%FEa", "%FFa"])
            let meta = rows.compactMap { ($0["doc"] as? [String: Any])?["meta"] as? [String: Any] }
            #expect(meta.map { $0["encodedId"] as? String } == [nil, "%FEa", "%FFa"])

            let read = try await site.ask("GET \(docs)/%FEa").object
            #expect(read["json"] as? String == "\"FEa\"")
            #expect((read["meta"] as? [String: Any])?["id"] is NSNull)
            #expect(try await site.ask("DELETE \(docs)/%FEa").status == 200)
            #expect(try await site.ask("GET \(docs)/%FFa").status == 200)
            #expect(try await site.ask("GET \(docs)/%EF%BF%BDa").status == 200)
        }
    }

    @Test func pageBoundIsReadAsBytesOrAsJSON() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for path in ["a", "%FEa", "%FFa", "%FFb"] {
                #expect(try await site.ask("POST \(docs)/\(path)", form: "value=1").status == 200)
            }
            func paths(_ query: String) async throws -> [String] {
                let reply = try await site.ask("GET \(docs)?\(query)")
                let rows = reply.object["rows"] as? [[String: Any]]
                return rows?.compactMap { ($0["encodedId"] ?? $0["id"]) as? String }
                    ?? ["\(reply.status)"]
            }
            #expect(try await paths("startkey_docid=%FEa&endkey_docid=%FFa") == ["%FEa", "%FFa"])
            let open = "startkey_docid=%FEa&endkey_docid=%FFa&inclusive_end=false"
            #expect(try await paths(open) == ["%FEa"])
            #expect(try await paths("endkey=%22b%22") == ["a"])
            // With the replacement character it would be a different key.
            for wrong in ["startkey=%22%FE%22", "endkey=%22%FE%22", "startkey=%22%5Cud800%22"] {
                #expect(try await paths(wrong) == ["400"], "\(wrong)")
            }
        }
    }

    @Test func randomKeyThatIsNotUTF8IsReturnedPercentEncoded() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            #expect(try await site.ask("POST \(docs)/%FF", form: "value=1").status == 200)
            let reply = try await site.ask("GET /pools/default/buckets/b/localRandomKey").object
            #expect(reply["ok"] as? Bool == true)
            #expect(reply["key"] is NSNull)
            #expect(reply["encodedKey"] as? String == "%FF")
        }
    }

    @Test(arguments: [
        "GET /pools/default/buckets/%FF", "GET /pools/default/buckets/b%FF/docs/k",
        "PUT /settings/rbac/users/local/%FF", "GET /ui/%FF", "GET /pools/default?etag=%FF",
        "GET /pools/default?%FF=1",
    ])
    func nameThatIsNotUTF8IsRefused(line: String) async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let reply = try await site.ask(line, form: "name=x")
            #expect(reply.status == 400)
            #expect(reply.text.contains("UTF-8"), "\(reply.text)")
        }
    }

    @Test func textFormValueThatIsNotUTF8IsRefused() async throws {
        try await Site.with { site in
            for (line, form) in [
                ("POST /pools/default/buckets", "name=b%FF&ramQuotaMB=100"),
                ("POST /pools/default", "clusterName=%FF"),
                ("POST /settings/web", "port=SAME&username=a&password=secret%FF"),
            ] {
                let reply = try await site.ask(line, form: form)
                #expect(reply.status == 400, "\(line)")
                #expect(reply.text.contains("is not valid UTF-8"), "\(reply.text)")
            }
            // The third form did not change the administrator's password.
            #expect(try await site.ask("GET /pools/default").status == 200)
        }
    }

    @Test func passwordThatIsNotUTF8IsRefused() async throws {
        try await Site.with { site in
            let form = "port=SAME&username=Administrator&password=secret%EF%BF%BD"
            #expect(try await site.ask("POST /settings/web", form: form).status == 200)
            func status(_ password: [UInt8]) async throws -> Int {
                let login = Data(Array("Administrator:".utf8) + password).base64EncodedString()
                let headers = ["Authorization: Basic \(login)"]
                return try await site.ask("GET /pools/default", .none, headers: headers).status
            }
            let right = try await status(Array("secret\u{FFFD}".utf8))
            #expect(right == 200)
            let repaired = try await status(Array("secret".utf8) + [0xff])
            #expect(repaired == 401)
        }
    }

    @Test func basicCredentialsHaveASchemeInAnyCaseAndOneTextInBase64() async throws {
        try await Site.with { site in
            func status(_ header: String) async throws -> Int {
                let headers = ["Authorization: \(header)"]
                return try await site.ask("GET /pools/default", .none, headers: headers).status
            }
            let login = Data("Administrator:password".utf8).base64EncodedString()
            let other = Data("Administrator password".utf8).base64EncodedString()
            for header in ["Basic \(login)", "bASIC \(login)", "Basic   \(login)"] {
                let found = try await status(header)
                #expect(found == 200, "\(header)")
            }
            let wrong = [
                "Basic", "Basic \(other)", "Basic \(login) x", "Basics \(login)", "Basi \(login)",
                "Bearer \(login)", "Basic\(login)", "Basic \(login.dropLast())", "Basic !!!",
                "\u{22}asic \(login)",
            ]
            for header in wrong { #expect(try await status(header) == 401, "\(header)") }
        }
    }

    @Test func rawByteInTheTargetThatIsNotUTF8IsRefused() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let port = site.port
            let request = site.request("GET \(docs)/k~", .administrator)
            let bytes = request.utf8.map { $0 == UInt8(ascii: "~") ? 0xff : $0 }
            let reply = try await apart {
                let client = try RawClient(port: port)
                try client.send(bytes)
                return try client.response()
            }
            #expect(reply.status == 400)
        }
    }
}
