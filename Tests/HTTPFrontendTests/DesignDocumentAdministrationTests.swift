import Bytes
import Foundation
import HTTPFrontend
import Orchestration
import Testing

/// Design documents on the admin port.
@Suite struct DesignDocumentAdministrationTests {
    private static let path = "/pools/default/buckets/b/ddocs"

    @Test func listHasEveryDocumentWithItsRevisionAndControllers() async throws {
        try await ViewSite.with { views in
            let empty = try await views.site.ask("GET \(Self.path)")
            #expect(empty.text == "{\"rows\":[]}")
            let body = "{\"views\": {}}"
            let revision = DesignDocument(name: "", body: Array(body.utf8), number: 1).revision
            for name in ["dev_x", "a%2Fb"] {
                _ = try await views.ask("PUT /b/_design/\(name)", json: body)
            }
            let reply = try await views.site.ask("GET \(Self.path)")
            #expect(reply.status == 200)
            let rows = [("a/b", "a%2Fb"), ("dev_x", "dev_x")].map { name, encoded in
                let controllers = "\(Self.path)/_design%2F\(encoded)/controller"
                return "{\"doc\":{\"meta\":{\"id\":\"_design/\(name)\",\"rev\":\"\(revision)\"},"
                    + "\"json\":\(body)},\"controllers\":{\"compact\":\"\(controllers)/compactView\","
                    + "\"setUpdateMinChanges\":\"\(controllers)/setUpdateMinChanges\"}}"
            }
            #expect(reply.text == "{\"rows\":[\(rows.joined(separator: ","))]}")
            #expect(try await views.site.ask("GET \(Self.path)", .none).status == 401)
            let absent = try await views.site.ask("GET /pools/default/buckets/absent/ddocs")
            #expect(absent.status == 404)
            #expect(absent.text == notFound)
        }
    }

    @Test func designDocumentControllersCompactCancelAndSet() async throws {
        try await ViewSite.with { views in
            let json = "{\"views\":{},\"options\":{\"updateMinChanges\":7}}"
            _ = try await views.ask("PUT /b/_design/dev_x", json: json)
            let controller = "POST \(Self.path)/_design%2Fdev_x/controller"
            #expect(try await views.site.ask("\(controller)/compactView").status == 200)
            #expect(try await views.site.ask("\(controller)/cancelViewCompaction").status == 200)
            let changed = try await views.site.ask(
                "\(controller)/setUpdateMinChanges",
                form: "updateMinChanges=7"
            )
            #expect(changed.status == 200)
            #expect(changed.text == "{\"updateMinChanges\":7}")
            let wrong = try await views.site.ask(
                "\(controller)/setUpdateMinChanges",
                form: "updateMinChanges=-1&replicaUpdateMinChanges=5"
            )
            #expect(wrong.status == 400)
            let text = "updateMinChanges must be a non-negative integer."
            #expect(wrong.text == "{\"updateMinChanges\":\"\(text)\"}")
            let calls = views.documents.calls.withLock { $0 }
            #expect(
                calls == ["compact b dev_x", "cancel b dev_x", "thresholds 7 - b dev_x"]
            )
            let missing = "POST \(Self.path)/_design%2Fabsent/controller/compactView"
            #expect(try await views.site.ask(missing).status == 404)
            let anonymous = try await views.site.ask("\(controller)/compactView", .none)
            #expect(anonymous.status == 401)
        }
    }

    @Test func clusterWithoutViewPortsHasNoList() async throws {
        let services = ViewServer.Services(
            designDocuments: MemoryDesignDocuments(),
            queries: ScriptedQueries()
        )
        try await Site.with(views: services) { site in
            try await site.createBucket("b")
            let reply = try await site.ask("GET \(Self.path)")
            #expect(reply.status == 400)
            #expect(reply.text == "{\"error\":\"no_ddocs_service\"}")
            let absent = try await site.ask("GET /pools/default/buckets/absent/ddocs")
            #expect(absent.status == 404)
        }
    }

    @Test func nodeWithoutViewsHasNoSuchRoutes() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            let reply = try await site.ask("GET \(Self.path)")
            #expect(reply.status == 404)
            #expect(reply.text == notFound)
        }
    }
}
