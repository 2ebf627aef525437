import Foundation
import Testing

/// Features that this server does not have, as tools query them.
@Suite struct AbsentTests {
    @Test func settingOfAMissingFeatureIsRefusedWithTheEditionHeader() async throws {
        try await Site.with { site in
            for page in ["ldap", "audit", "querySettings"] {
                for method in ["GET", "POST"] {
                    let reply = try await site.ask("\(method) /settings/\(page)")
                    #expect(reply.status == 400, "\(page)")
                    #expect(reply.headers["x-enterprise-edition-needed"] == "1", "\(page)")
                    #expect(reply.text.hasSuffix(".\r\n"), "\(page)")
                    #expect(try await site.ask("\(method) /settings/\(page)", .none).status == 401)
                }
            }
        }
    }

    /// Tools read this before they add a node and fail if it is refused.
    @Test func indexSettingsAreEmptyAndCannotBeChanged() async throws {
        try await Site.with { site in
            let page = try await site.ask("GET /settings/indexes")
            #expect(page.status == 200 && page.object["storageMode"] as? String == "")
            let reply = try await site.ask("POST /settings/indexes", form: "storageMode=plasma")
            #expect(reply.status == 400)
        }
    }

    @Test func alertsAndReprovisioningAreOffAndCannotBeEnabled() async throws {
        try await Site.with { site in
            for page in ["/settings/alerts", "/settings/autoReprovision"] {
                #expect(try await site.ask("GET \(page)").object["enabled"] as? Bool == false)
                #expect(try await site.ask("POST \(page)", form: "enabled=false").status == 200)
                for form in ["enabled=true", "enabled=perhaps", "max_nodes=1"] {
                    let reply = try await site.ask("POST \(page)", form: form)
                    #expect(reply.status == 400)
                    let errors = reply.object["errors"] as? [String: String]
                    #expect(errors?["enabled"]?.isEmpty == false)
                }
                #expect(try await site.ask("GET \(page)").object["enabled"] as? Bool == false)
            }
        }
    }

    @Test func remoteClustersMemcachedSettingsAndDiagEvalAreRefused() async throws {
        try await Site.with { site in
            let remote = "/pools/default/remoteClusters"
            #expect(try await site.ask("GET \(remote)").text == "[]")
            #expect(try await site.ask("POST \(remote)", form: "name=x").status == 400)
            let options = "/pools/default/settings/memcached/global"
            #expect(try await site.ask("GET \(options)").text == "{}")
            let set = try await site.ask("POST \(options)", form: "max_connections=9")
            #expect(set.status == 400)
            #expect((set.object["errors"] as? [String: String])?["max_connections"] != nil)
            let code = try await site.ask("POST /diag/eval", form: "init:stop().")
            #expect(code.status == 403)
            #expect(try await site.ask("GET /pools/default").status == 200)
        }
    }

    @Test func sampleBucketsAreAnEmptyListAndTheirInstallationIsRefused() async throws {
        try await Site.with { site in
            #expect(try await site.ask("GET /sampleBuckets").text == "[]")
            let install = try await site.ask(
                "POST /sampleBuckets/install",
                json: #"["travel-sample"]"#
            )
            #expect(install.status == 400)
            #expect((install.json as? [String])?.first?.contains("no sample buckets") == true)
        }
    }

    @Test func unknownFieldOfAddNodeIsRefusedByName() async throws {
        try await Site.with { site in
            let path = "POST /controller/addNode"
            let misspelt = try await site.ask(path, form: "hostname=127.0.0.1:1&passwrd=x")
            #expect(misspelt.status == 400)
            #expect(misspelt.text == #"["passwrd: Unsupported key"]"#)
            let form = "hostname=127.0.0.1:1&clientCertAuth=true"
            let certificate = try await site.ask(path, form: form)
            #expect(certificate.status == 400)
            #expect(certificate.text.contains("prove their keys"))
        }
    }
}
