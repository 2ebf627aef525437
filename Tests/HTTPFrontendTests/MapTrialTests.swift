import Bytes
import Foundation
import HTTPFrontend
import Testing

/// Trials whose outcome a test sets.
final class ScriptedTrials: MapTrialRunner {
    let requests = Guarded<[String]>([])
    let outcome = Guarded<MapTrialOutcome>(.documentUnknown)

    func tryMap(
        _ map: String,
        onDocument document: [UInt8],
        inBucket bucket: String
    ) async -> MapTrialOutcome {
        let id = String(decoding: document, as: UTF8.self)
        requests.withLock { $0.append("\(bucket) \(id) \(map)") }
        return outcome.withLock { $0 }
    }
}

/// The view port's routes on the admin port, and trials of map functions.
@Suite struct MapTrialTests {
    private static let path = "/pools/default/buckets/b/controller/tryMap"
    private static let form = "map=function(doc)%7B%7D&id=d%201"

    @Test func rowsOfATrialAreShownWithTheLog() async throws {
        try await ViewSite.with { views in
            let rows = [(key: Array("[1]".utf8), value: Array("null".utf8))]
            views.trials.outcome.withLock { $0 = .ended(rows: rows, log: ["x"]) }
            let reply = try await views.site.ask("POST \(Self.path)", form: Self.form)
            #expect(reply.status == 200)
            #expect(
                reply.text
                    == "{\"rows\":[{\"id\":\"d 1\",\"key\":[1],\"value\":null}],\"log\":[\"x\"]}"
            )
            #expect(views.trials.requests.withLock { $0 } == ["b d 1 function(doc){}"])
        }
    }

    @Test func failureOfATrialNamesItsLine() async throws {
        try await ViewSite.with { views in
            views.trials.outcome.withLock {
                $0 = .failed(line: 3, reason: "x is not defined", log: [])
            }
            let reply = try await views.site.ask("POST \(Self.path)", form: Self.form)
            #expect(reply.status == 200)
            let error = reply.object["error"] as? [String: Any]
            #expect(error?["line"] as? Int == 3)
            #expect(error?["reason"] as? String == "x is not defined")
        }
    }

    @Test func trialWithoutItsPartsIsRefused() async throws {
        try await ViewSite.with { views in
            for form in ["map=f", "id=d", "map=f&id="] {
                #expect(try await views.site.ask("POST \(Self.path)", form: form).status == 400)
            }
            let missing = try await views.site.ask("POST \(Self.path)", form: Self.form)
            #expect(missing.status == 404)
            #expect(missing.object["id"] as? String == "There is no document with this id.")
            let anonymous = try await views.site.ask("POST \(Self.path)", .none, form: Self.form)
            #expect(anonymous.status == 401)
            views.trials.outcome.withLock { $0 = .unavailable("Retry.") }
            let busy = try await views.site.ask("POST \(Self.path)", form: Self.form)
            #expect(busy.status == 503)
            #expect(views.trials.requests.withLock { $0.count } == 2)
        }
    }

    @Test func adminPortHasTheRoutesOfTheViewPort() async throws {
        try await ViewSite.with { views in
            let document = "/couchBase/b/_design/dev_d"
            let put = try await views.site.ask("PUT \(document)", json: "{\"views\":{}}")
            #expect(put.status == 201)
            #expect(put.headers["location"]?.hasSuffix(document) == true)
            #expect(try await views.site.ask("GET \(document)").text == "{\"views\":{}}")
            views.queries.answer(.rows(ScriptedRows(["{\"rows\":[]}"])))
            let query = try await views.site.ask("GET \(document)/_view/v?limit=1")
            #expect(query.text == "{\"rows\":[]}")
            #expect(views.queries.lastParameters == ["limit=1"])
            #expect(try await views.site.ask("GET \(document)", .none).status == 401)
            #expect(try await views.site.ask("DELETE \(document)").status == 200)
            #expect(try await views.site.ask("GET \(document)").status == 404)
        }
    }

    @Test func routesOfViewsAreAbsentWithoutViews() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            #expect(try await site.ask("GET /couchBase/b/_design/d").status == 404)
            #expect(try await site.ask("POST \(Self.path)", form: Self.form).status == 404)
        }
    }
}
