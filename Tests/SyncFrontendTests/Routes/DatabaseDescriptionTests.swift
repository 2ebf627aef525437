import Testing

@Suite struct DatabaseDescriptionTests {
    @Test func gatewayAndDatabaseDescribeThemselves() async throws {
        try await GatewayWorld.with { world in
            let root = try world.ask("GET /", .none)
            #expect(
                root.text == #"{"couchdb":"Welcome","vendor":{"name":"Couchbase Sync Gateway","#
                    + #""version":1.4},"version":"Couchbase Sync Gateway/1.4.1 Divan"}"#
            )
            #expect(try world.ask("GET /", .administrator).text.hasPrefix(#"{"ADMIN":true,"#))
            let database = try world.ask("GET /db/")
            let start = try #require(database.object["instance_start_time"] as? Int)
            #expect(start > 1_600_000_000_000_000)
            #expect(
                database.text
                    == #"{"committed_update_seq":3,"compact_running":false,"db_name":"db","#
                    + #""disk_format_version":0,"instance_start_time":\#(start),"purge_seq":0,"#
                    + #""state":"Online","update_seq":3}"#
            )
            let head = try world.ask("HEAD /db/")
            #expect(head.status == 200 && head.headers["content-type"] == "application/json")
            let commit = try world.ask("POST /db/_ensure_full_commit")
            #expect(commit.status == 201)
            #expect(commit.text == #"{"instance_start_time":\#(start),"ok":true}"#)
            #expect(try world.ask("GET /db/", .none).status == 401)
            let unknown = try world.ask("GET /nodb/", .none)
            #expect(unknown.text == #"{"error":"not_found","reason":"no such database \"nodb\""}"#)
        }
    }

    @Test func checkpointsHaveVersionsOfTheirOwn() async throws {
        try await GatewayWorld.with { world in
            let first = try world.ask("PUT /db/_local/c%2Fp", body: #"{"x":1}"#)
            #expect(first.status == 201)
            #expect(first.text == #"{"id":"_local/c/p","ok":true,"rev":"0-1"}"#)
            let stale = try world.ask("PUT /db/_local/c%2Fp", body: #"{"x":2}"#)
            #expect(stale.status == 409 && stale.reason == "Document update conflict")
            let read = try world.ask("GET /db/_local/c%2Fp")
            #expect(read.text == #"{"_id":"_local/c/p","_rev":"0-1","x":1}"#)
            #expect(try world.ask("GET /db/_local/nope").status == 404)
            let deleted = try world.ask("DELETE /db/_local/c%2Fp?rev=0-1")
            #expect(deleted.status == 200 && deleted.body.isEmpty)
            #expect(try world.ask("GET /db/_local/c%2Fp").status == 404)
            let put = try world.ask("PUT /db/_local/x", body: #"{"b":"<","a":{"y":1.5,"x":2}}"#)
            #expect(put.status == 201)
            let sorted = try world.ask("GET /db/_local/x").text
            #expect(
                sorted == #"{"_id":"_local/x","_rev":"0-1","a":{"x":2,"y":1.5},"b":"\u003c"}"#
            )
            #expect(try world.ask("PUT /db/_local/x", body: "x").reason == "Bad JSON")
        }
    }

    @Test func onlyTheGatewaysOwnDesignDocumentExists() async throws {
        try await GatewayWorld.with { world in
            let own = try world.ask("GET /db/_design/sync_gateway")
            #expect(own.text == #"{"filters":{"bychannel":"ok"}}"#)
            #expect(try world.ask("GET /db/_design/x").status == 403)
            #expect(try world.ask("GET /db/_design/x", .administrator).status == 404)
            #expect(try world.ask("PUT /db/_design/x", .administrator, body: "{}").status == 501)
            let reserved = try world.ask("PUT /db/_design/sync_x", .administrator, body: "{}")
            #expect(reserved.status == 403)
            #expect(try world.ask("DELETE /db/_design/x", .administrator).status == 404)
            #expect(try world.ask("GET /db/_t9").reason == "unknown URL")
        }
    }
}
