import Foundation
import Testing

/// Selected and sorted lists of users and roles, and the change of a user in part.
@Suite struct UserListTests {
    private static let path = "/settings/rbac/users/local"

    private func put(_ site: Site, _ id: String, _ more: String) async throws {
        let reply = try await site.ask("PUT \(Self.path)/\(id)", form: "password=secret-1&\(more)")
        #expect(reply.status == 200, "\(reply.text)")
    }

    private func page(_ site: Site, _ query: String) async throws -> [String: Any] {
        let reply = try await site.ask("GET \(Self.path)?\(query)")
        #expect(reply.status == 200, "\(reply.text)")
        return reply.object
    }

    private func ids(_ list: Any?) -> [String] {
        (list as? [[String: Any]] ?? []).compactMap { $0["id"] as? String }
    }

    @Test func pageIsSortedAndContinuedInItsOrder() async throws {
        try await Site.with { site in
            for (id, name) in [("a", "Zoe"), ("b", "Ann"), ("c", "Max"), ("d", "Ann"), ("e", "")] {
                try await put(site, id, "name=\(name)")
            }
            let descending = try await page(site, "pageSize=3&order=desc")
            #expect(ids(descending["users"]) == ["e", "d", "c"])
            let names = try await page(site, "pageSize=3&sortBy=name")
            #expect(ids(names["users"]) == ["e", "b", "d"])
            let links = try #require(names["links"] as? [String: String])
            let next = try #require(links["next"])
            #expect(next.contains("sortBy=name") && next.hasSuffix("startFrom=c"))
            let second = try await site.ask("GET \(next)").object
            #expect(ids(second["users"]) == ["c", "a"] && second["skipped"] as? Int == 3)
            let backwards = try await page(
                site,
                "pageSize=2&sortBy=name&order=desc&startFrom=d"
            )
            #expect(ids(backwards["users"]) == ["d", "b"])
            for key in ["id", "domain"] {
                let users = try await page(site, "pageSize=9&sortBy=\(key)&order=asc")["users"]
                #expect(ids(users) == ["a", "b", "c", "d", "e"])
            }
            let times = try await page(site, "pageSize=9&sortBy=password_change_timestamp")
            #expect(ids(times["users"]).count == 5)
            for (query, field) in [("sortBy=age", "sortBy"), ("order=up", "order")] {
                let wrong = try await site.ask("GET \(Self.path)?pageSize=2&\(query)")
                #expect(wrong.status == 400)
                #expect((wrong.object["errors"] as? [String: String])?[field] != nil)
            }
        }
    }

    @Test func pageAfterDeletedUserContinuesByIdAndIsRefusedInOtherOrders() async throws {
        try await Site.with { site in
            let names = [("a", "Zoe"), ("b", "Ann"), ("c", "Max"), ("d", "Bob"), ("e", "Cy")]
            for (id, name) in names { try await put(site, id, "name=\(name)") }
            func next(_ query: String) async throws -> String {
                let links = try await page(site, query)["links"] as? [String: String]
                return try #require(links?["next"])
            }
            let byID = try await next("pageSize=2&sortBy=id")
            let byDomain = try await next("pageSize=2&sortBy=domain&order=desc")
            let byName = try await next("pageSize=3&sortBy=name")
            let byTime = try await next("pageSize=2&sortBy=password_change_timestamp")
            let startsWithC = [byID, byDomain, byName, byTime].map { $0.hasSuffix("startFrom=c") }
            #expect(startsWithC == [true, true, true, true])
            #expect(try await site.ask("DELETE \(Self.path)/c").status == 200)
            let rest = try await site.ask("GET \(byID)").object
            #expect(ids(rest["users"]) == ["d", "e"] && rest["skipped"] as? Int == 2)
            let others = try await site.ask("GET \(byDomain)").object
            #expect(ids(others["users"]) == ["b", "a"] && others["skipped"] as? Int == 2)
            for link in [byName, byTime] {
                let refused = try await site.ask("GET \(link)")
                #expect(refused.status == 400)
                let errors = try #require(refused.object["errors"] as? [String: String])
                #expect(Array(errors.keys) == ["startFrom"])
                #expect(errors["startFrom"]?.contains("There is no user \"c\"") == true)
                #expect(errors["startFrom"]?.contains("Request the first page again") == true)
            }
            // A user that exists has a place, even if the page does not contain it.
            let absent = "pageSize=2&sortBy=name&substr=cy&startFrom=d"
            #expect(ids(try await page(site, absent)["users"]) == ["e"])
        }
    }

    @Test func pageContainsOnlyUsersWithTheTextInTheirIdOrName() async throws {
        try await Site.with { site in
            for (id, name) in [("Ann", ""), ("bob", "Joanne"), ("cy", "Cy"), ("hannah", "H")] {
                try await put(site, id, "name=\(name)")
            }
            let found = try await page(site, "pageSize=2&substr=ANN")
            #expect(ids(found["users"]) == ["Ann", "bob"] && found["total"] as? Int == 3)
            let next = try #require((found["links"] as? [String: String])?["next"])
            #expect(next.contains("substr=ANN"))
            #expect(ids(try await site.ask("GET \(next)").object["users"]) == ["hannah"])
            #expect(try await page(site, "pageSize=2&substr=")["total"] as? Int == 4)
            // As in Couchbase Server, a list without pages contains all users.
            #expect(ids(try await site.ask("GET \(Self.path)?substr=ann").json).count == 4)
        }
    }

    @Test func listContainsOnlyUsersWithThePermission() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            try await put(site, "reader", "roles=data_reader%5Bb%5D")
            try await put(site, "writer", "roles=data_writer%5Bb%5D")
            try await put(site, "root", "roles=admin")
            let permission = "permission=cluster.bucket%5Bb%5D.data.docs!read"
            #expect(
                ids(try await site.ask("GET \(Self.path)?\(permission)").json) == [
                    "reader", "root",
                ]
            )
            let first = try await page(site, "pageSize=2&\(permission)&order=desc")
            #expect(ids(first["users"]) == ["root", "reader"] && first["total"] as? Int == 2)
            let wrong = try await site.ask("GET \(Self.path)?permission=read")
            #expect(wrong.status == 400)
            let errors = wrong.object["errors"] as? [String: String]
            #expect(errors?["permission"] == "Malformed permission")
        }
    }

    @Test func roleListContainsOnlyRolesWithThePermission() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            func roles(_ permission: String) async throws -> [String] {
                let reply = try await site.ask("GET /settings/rbac/roles?permission=\(permission)")
                let rows = try #require(reply.json as? [[String: Any]])
                return rows.map { row in
                    let bucket = row["bucket_name"].map { "[\($0)]" } ?? ""
                    return (row["role"] as? String ?? "") + bucket
                }
            }
            #expect(try await roles("cluster.admin.security!write") == ["admin"])
            #expect(
                try await roles("cluster.bucket%5Bb%5D.data.docs!upsert") == [
                    "admin", "bucket_full_access[*]", "bucket_full_access[b]", "data_writer[*]",
                    "data_writer[b]",
                ]
            )
            // A bucket that does not exist has no grant of its own.
            #expect(
                try await roles("cluster.bucket%5Bc%5D.data.docs!upsert") == [
                    "admin", "bucket_full_access[*]", "data_writer[*]",
                ]
            )
            let wrong = try await site.ask("GET /settings/rbac/roles?permission=x")
            #expect(wrong.status == 400)
        }
    }

    @Test func patchChangesThePasswordAndNothingElse() async throws {
        try await Site.with { site in
            try await put(site, "eve", "name=Eve&roles=ro_admin")
            let patch = "PATCH \(Self.path)/eve"
            #expect(try await site.ask(patch, form: "password=secret-2").status == 200)
            let eve = try await site.ask("GET \(Self.path)/eve").object
            #expect(eve["name"] as? String == "Eve")
            #expect((eve["roles"] as? [[String: Any]])?.first?["role"] as? String == "ro_admin")
            let old = Site.Login.basic("eve", "secret-1")
            let new = Site.Login.basic("eve", "secret-2")
            #expect(try await site.ask("GET /pools/default", old).status == 401)
            #expect(try await site.ask("GET /pools/default", new).status == 200)
            #expect(try await site.ask(patch, form: "locked=false").status == 200)
            let refusals = [
                ("password=x", "password"), ("locked=true", "locked"), ("roles=admin", "roles"),
                ("name=E", "name"), ("", "_"),
            ]
            for (form, field) in refusals {
                let reply = try await site.ask(patch, form: form)
                #expect(reply.status == 400, "\(form)")
                #expect((reply.object["errors"] as? [String: String])?[field] != nil, "\(form)")
            }
            let tried = try await site.ask("\(patch)?just_validate=1", form: "password=secret-3")
            #expect(tried.status == 200)
            #expect(try await site.ask("GET /pools/default", new).status == 200)
            #expect(try await site.ask(patch, new, form: "password=secret-3").status == 403)
            let unknown = try await site.ask("PATCH \(Self.path)/bob", form: "password=secret-2")
            #expect(unknown.status == 404 && unknown.json as? String == "Unknown user.")
            let external = "PATCH /settings/rbac/users/external/eve"
            #expect(try await site.ask(external, form: "password=secret-2").status == 405)
        }
    }
}
