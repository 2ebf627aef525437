import ClusterService
import Foundation
import Orchestration
import Testing

/// The cluster's structure in REST; `test_cluster_rest.py` tests it with several nodes.
@Suite struct ClusterTests {
    @Test func poolListsTheControllersAndEachExists() async throws {
        try await Site.with { site in
            let pool = try await site.ask("GET /pools/default").object
            let controllers = try #require(pool["controllers"] as? [String: [String: String]])
            let names: Set = [
                "addNode", "rebalance", "failOver", "startGracefulFailover", "reAddNode",
                "reFailOver", "ejectNode", "setRecoveryType", "setAutoCompaction",
            ]
            #expect(Set(controllers.keys) == names)
            // Each route exists: the request is refused for missing fields, not as unknown.
            for controller in controllers.values {
                let uri = try #require(controller["uri"])
                let reply = try await site.ask("POST \(uri)", form: "x=1")
                #expect(reply.status != 404 && reply.status != 405, "\(uri)")
            }
            let remote = try #require((pool["remoteClusters"] as? [String: String])?["uri"])
            #expect(try await site.ask("GET \(remote)").text == "[]")
            #expect(pool["rebalanceStatus"] as? String == "none")
            #expect(pool["balanced"] as? Bool == true)
            #expect(pool["bucketsNeedRebalance"] == nil)
            let info = try await site.ask("GET /pools/default/terseClusterInfo").object
            let nodes = try #require(pool["nodes"] as? [[String: Any]])
            #expect(info["orchestrator"] as? String == nodes.first?["otpNode"] as? String)
            #expect(info["isBalanced"] as? Bool == true)
            #expect(nodes.first?["serverGroup"] as? String == "Group 1")
        }
    }

    @Test func validateURIOfCompactionSettingsChangesNothing() async throws {
        try await Site.with { site in
            let pool = try await site.ask("GET /pools/default").object
            let controllers = try #require(pool["controllers"] as? [String: [String: String]])
            let uri = try #require(controllers["setAutoCompaction"]?["validateURI"])
            let form =
                "parallelDBAndViewCompaction=false&viewFragmentationThreshold%5Bpercentage%5D=77"
            let reply = try await site.ask("POST \(uri)", form: form)
            #expect(reply.status == 200 && reply.object["errors"] != nil)
            let settings = try await site.ask("GET /settings/autoCompaction")
            #expect(!settings.text.contains("77"))
        }
    }

    @Test func internalSettingsHaveAndChangeTheNumberOfParallelIndexers() async throws {
        try await Site.with { site in
            let path = "/internalSettings"
            #expect(try await site.ask("GET \(path)").object["maxParallelIndexers"] as? Int == 4)
            let form = "maxParallelIndexers=3&maxBucketCount=7&maxDocsLimit=1000"
            #expect(try await site.ask("POST \(path)?just_validate=1", form: form).status == 200)
            #expect(try await site.ask("GET \(path)").object["maxParallelIndexers"] as? Int == 4)
            #expect(try await site.ask("POST \(path)", form: form).status == 200)
            let settings = try await site.ask("GET \(path)").object
            #expect(settings["maxParallelIndexers"] as? Int == 3)
            #expect(settings["maxBucketCount"] as? Int == 7)
            let indexers = try await site.ask("GET /settings/maxParallelIndexers").object
            #expect(indexers["globalValue"] as? Int == 3)
            let refusals = [
                ("maxParallelIndexers=0&maxBucketCount=9", "maxParallelIndexers"),
                ("maxBucketCount=x", "maxBucketCount"), ("maxDocsLimit=1", "maxDocsLimit"),
                ("restRequestLimit=1", "restRequestLimit"), ("", "_"),
            ]
            for (form, field) in refusals {
                let reply = try await site.ask("POST \(path)", form: form)
                #expect(reply.status == 400, "\(form)")
                #expect((reply.object["errors"] as? [String: String])?[field] != nil, "\(form)")
            }
            #expect(try await site.ask("GET \(path)").object["maxBucketCount"] as? Int == 7)
        }
    }

    @Test func statusOfASingleNodeIsCurrentAndExcludesGracefulFailover() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let reply = try await site.ask("GET /nodeStatuses")
            #expect(reply.headers["divan-stale"] == nil)
            let status = try #require(reply.object.values.first as? [String: Any])
            #expect(status["status"] as? String == "healthy")
            #expect(status["gracefulFailoverPossible"] as? Bool == false)
            #expect(status["dataless"] as? Bool == false)
        }
    }

    @Test func refusedRecoveryTypeHasTheCause() async throws {
        try await Site.with { site in
            let node = try #require(site.service.state.nodes.first?.otpNode)
            let reply = try await site.ask(
                "POST /controller/setRecoveryType",
                form: "otpNode=\(node)&recoveryType=full"
            )
            #expect(reply.status == 400)
            let text =
                "A recovery type can be set only for a node that was failed over, and \(node) was "
                + "not."
            #expect(reply.object as? [String: String] == ["otpNode": text])
        }
    }

    @Test func longPollIgnoresChangesOfStatistics() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let first = try await site.ask("GET /pools/default?waitChange=0").object
            let tag = try #require(first["etag"] as? String)
            for number in 1...5 {
                let path = "POST /pools/default/buckets/b/docs/\(number)"
                #expect(try await site.ask(path, form: "value=\(number)").status == 200)
            }
            // Longer than the interval of statistics.
            let later = try await site.ask("GET /pools/default?waitChange=1500&etag=\(tag)").object
            #expect(later["etag"] as? String == tag)
        }
    }

    // MARK: Groups

    @Test func groupsAreCreatedRenamedFilledAndRemoved() async throws {
        try await Site.with { site in
            let path = "/pools/default/serverGroups"
            #expect(try await site.ask("POST \(path)", form: "name=Rack%202").status == 200)
            let twice = try await site.ask("POST \(path)", form: "name=Rack%202")
            #expect(twice.status == 400)
            #expect(twice.object["name"] as? String == "already exists")
            var found = try await groups(site)
            #expect(found.map(\.name) == ["Group 1", "Rack 2"])
            #expect(found.map(\.nodes.count) == [1, 0])
            let renamed = try await site.ask("PUT \(found[1].uri)", form: "name=Rack%20B")
            #expect(renamed.status == 200)
            let full = try await site.ask("DELETE \(found[0].uri)")
            #expect(full.status == 400)
            try await move(site, to: 1)
            found = try await groups(site)
            #expect(found.map(\.name) == ["Group 1", "Rack B"])
            #expect(found.map(\.nodes.count) == [0, 1])
            #expect(try await site.ask("DELETE \(found[0].uri)").status == 200)
            #expect(try await groups(site).map(\.name) == ["Rack B"])
            #expect(try await site.ask("DELETE \(found[0].uri)").status == 404)
        }
    }

    @Test func groupLayoutWithAnOldRevisionIsRefused() async throws {
        try await Site.with { site in
            let old = try await site.ask("GET /pools/default/serverGroups").object
            let uri = try #require(old["uri"] as? String)
            _ = try await site.ask("POST /pools/default/serverGroups", form: "name=g")
            let body = #"{"groups":[]}"#
            #expect(try await put(site, uri, body).status == 409)
            let new = try await site.ask("GET /pools/default/serverGroups").object
            let current = try #require(new["uri"] as? String)
            #expect(try await put(site, current, body).status == 400)
            #expect(try await put(site, current, "invalid").status == 400)
        }
    }

    @Test func singleNodeIsRenamedOnlyToAReachableName() async throws {
        try await Site.with { site in
            let path = "POST /node/controller/rename"
            #expect(try await site.ask(path, form: "hostname=127.0.0.1").status == 200)
            #expect(try await site.ask(path, form: "").status == 400)
            let wrong = try await site.ask(path, form: "hostname=nowhere.invalid")
            #expect(wrong.status == 400)
            #expect(wrong.text.contains("nowhere.invalid"))
        }
    }

    // MARK: Parts

    private struct Group {
        var name: String
        var uri: String
        var nodes: [String]
    }

    private func groups(_ site: Site) async throws -> [Group] {
        let layout = try await site.ask("GET /pools/default/serverGroups").object
        let groups = try #require(layout["groups"] as? [[String: Any]])
        return try groups.map { group in
            let nodes = try #require(group["nodes"] as? [[String: Any]])
            return Group(
                name: try #require(group["name"] as? String),
                uri: try #require(group["uri"] as? String),
                nodes: nodes.compactMap { $0["otpNode"] as? String }
            )
        }
    }

    /// Moves every node into one group.
    private func move(_ site: Site, to place: Int) async throws {
        let layout = try await site.ask("GET /pools/default/serverGroups").object
        let uri = try #require(layout["uri"] as? String)
        let found = try await groups(site)
        let nodes = found.flatMap(\.nodes).map { #"{"otpNode":"\#($0)"}"# }.joined(separator: ",")
        let parts = found.enumerated().map { number, group in
            #"{"uri":"\#(group.uri)","nodes":[\#(number == place ? nodes : "")]}"#
        }
        let body = #"{"groups":[\#(parts.joined(separator: ","))]}"#
        let reply = try await put(site, uri, body)
        #expect(reply.status == 200, "\(reply.text)")
    }

    private func put(
        _ site: Site,
        _ uri: String,
        _ body: String
    ) async throws -> RawClient.Response {
        try await site.ask(
            "PUT \(uri)",
            headers: ["Content-Type: application/json"],
            json: body
        )
    }
}
