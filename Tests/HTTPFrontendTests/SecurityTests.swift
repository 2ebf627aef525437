import Foundation
import Testing

/// `/settings/security`: the fields of Couchbase, and the refusals of other ones.
@Suite struct SecurityTests {
    @Test func settingsOfPasswordsAreReadAndChanged() async throws {
        try await Site.with(provisioned: false) { site in
            let path = "/settings/security"
            let fresh = try await site.ask("GET \(path)", .none).object
            #expect(fresh["scramShaIterations"] as? Int == 60_000)
            #expect(fresh["scramSha1Enabled"] as? Bool == false)
            #expect(fresh["scramSha256Enabled"] as? Bool == true)
            #expect(fresh["scramSha512Enabled"] as? Bool == true)
            let form = "scramShaIterations=4096&scramSha1Enabled=true&scramSha512Enabled=true"
            let tried = try await site.ask("POST \(path)?just_validate=1", .none, form: form)
            #expect(tried.status == 200)
            let untouched = try await site.ask("GET \(path)", .none).object
            #expect(untouched["scramShaIterations"] as? Int == 60_000)
            #expect(try await site.ask("POST \(path)", .none, form: form).status == 200)
            let changed = try await site.ask("GET \(path)", .none).object
            #expect(changed["scramShaIterations"] as? Int == 4_096)
            #expect(changed["scramSha1Enabled"] as? Bool == true)
        }
    }

    @Test(
        arguments: [
            ("scramShaIterations", "4095"), ("scramShaIterations", "1000001"),
            ("scramShaIterations", "many"), ("scramSha1Enabled", "1"),
            ("scramSha256Enabled", "false"), ("scramSha512Enabled", "false"),
            ("disableUIOverHttp", "1"), ("tlsMinVersion", "tlsv1.1"), ("cipherSuites", "%5B1%5D"),
            ("clusterEncryptionLevel", "none"), ("responseHeaders", "%7B%22X%22:%221%22%7D"),
            ("disableUIOverHttps", "true"),
        ]
    )
    func impossibleValueIsRefusedWithItsField(_ field: String, _ value: String) async throws {
        try await Site.with(provisioned: false) { site in
            let reply = try await site.ask(
                "POST /settings/security",
                .none,
                form: "\(field)=\(value)"
            )
            #expect(reply.status == 400)
            let errors = try #require(reply.object["errors"] as? [String: String])
            #expect(Array(errors.keys) == [field])
        }
    }
}
