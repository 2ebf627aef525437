import Testing

/// What the admin port shows of views, in the forms that clients of all generations read.
@Suite struct ViewAnnouncementTests {
    private func object(_ site: Site, _ path: String) async throws -> [String: Any] {
        let reply = try await site.ask("GET \(path)")
        #expect(reply.status == 200, "\(path)")
        return reply.object
    }

    private func firstNode(_ json: [String: Any]) throws -> [String: Any] {
        try #require((json["nodes"] as? [[String: Any]])?.first)
    }

    @Test func nodeShowsTheAddressOfItsViewPort() async throws {
        try await Site.with(viewsPort: 8_092) { site in
            for path in ["/pools/default", "/pools/nodes"] {
                let node = try firstNode(await object(site, path))
                #expect(node["couchApiBase"] as? String == "http://127.0.0.1:8092/")
            }
            let own = try await object(site, "/nodes/self")
            #expect(own["couchApiBase"] as? String == "http://127.0.0.1:8092/")
            let services = try await object(site, "/pools/default/nodeServices")
            let node = try #require((services["nodesExt"] as? [[String: Any]])?.first)
            #expect((node["services"] as? [String: Int])?["capi"] == 8_092)
        }
    }

    @Test(arguments: ["buckets", "b"])
    func bucketShowsItsViews(_ kind: String) async throws {
        try await Site.with(viewsPort: 8_092) { site in
            try await site.createBucket("b")
            let bucket = try await object(site, "/pools/default/\(kind)/b")
            let uuid = try #require(bucket["uuid"] as? String)
            let documents = bucket["ddocs"] as? [String: String]
            #expect(documents == ["uri": "/pools/default/buckets/b/ddocs"])
            #expect((bucket["bucketCapabilities"] as? [String])?.contains("couchapi") == true)
            let base = try #require(try firstNode(bucket)["couchApiBase"] as? String)
            #expect(base == "http://127.0.0.1:8092/b%2B\(uuid)")
        }
    }

    @Test(arguments: ["buckets", "b"])
    func ephemeralBucketShowsNoViews(_ kind: String) async throws {
        try await Site.with(viewsPort: 8_092) { site in
            try await site.createBucket("e", "&bucketType=ephemeral")
            let bucket = try await object(site, "/pools/default/\(kind)/e")
            #expect(bucket["ddocs"] == nil)
            #expect((bucket["bucketCapabilities"] as? [String])?.contains("couchapi") == false)
            #expect(try firstNode(bucket)["couchApiBase"] == nil)
        }
    }

    @Test func nodeWithoutViewPortShowsNothing() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let paths = [
                "/pools/default", "/nodes/self", "/pools/default/nodeServices",
                "/pools/default/buckets/b", "/pools/default/b/b",
            ]
            for path in paths {
                let reply = try await site.ask("GET \(path)")
                for absent in ["couchApiBase", "couchapi\"", "\"capi\"", "ddocs"] {
                    #expect(!reply.text.contains(absent), "\(path)")
                }
            }
        }
    }
}
