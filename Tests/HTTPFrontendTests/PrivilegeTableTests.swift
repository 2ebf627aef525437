import Foundation
import HTTPFrontend
import Orchestration
import Testing
import Vocabulary

/// The table of privileges, `Tests/Clients/privileges.txt`, against the routes and the roles.
///
/// `test_privileges_rest.py` sends the table's requests to a real node.
@Suite struct PrivilegeTableTests {
    private let table: PrivilegeTable

    init() throws {
        table = try PrivilegeTable()
    }

    private static let services = ViewServer.Services(
        designDocuments: MemoryDesignDocuments(),
        queries: ScriptedQueries(),
        trials: ScriptedTrials()
    )

    private static func lines(_ entries: [RouteCatalog.Entry]) -> Set<String> {
        Set(entries.map { "\($0.method) \($0.path) \($0.need)" })
    }

    @Test func everyRouteOfTheAdminPortIsListedWithItsPermission() {
        let routes = Self.lines(RouteCatalog.adminPort(Self.services))
        let listed = Set(table.lines(of: "admin port"))
        #expect(routes.subtracting(listed).sorted() == [], "missing in the table")
        #expect(listed.subtracting(routes).sorted() == [], "not a route")
    }

    @Test func everyRouteOfTheViewPortIsListedWithItsPermission() {
        let routes = Self.lines(RouteCatalog.viewPort(Self.services))
        let listed = Set(table.lines(of: "view port"))
        #expect(routes.subtracting(listed).sorted() == [], "missing in the table")
        #expect(listed.subtracting(routes).sorted() == [], "not a route")
    }

    @Test func everyRoleIsListed() {
        let roles = Set(Role.allCases.map(\.rawValue))
        #expect(
            roles.union(["none"]) == Set(table.lines(of: "logins").flatMap(PrivilegeTable.words))
        )
    }

    @Test func rolesHaveThePermissionsOfTheTable() throws {
        for line in table.lines(of: "permissions") {
            let sides = line.split(separator: "|").map(PrivilegeTable.words)
            let text = try #require(sides.first?.first)
            let places =
                [(bucket: "demo", allowed: Set(sides[0].dropFirst()))]
                + sides.dropFirst().map { (bucket: "other", allowed: Set($0)) }
            for (bucket, allowed) in places {
                let named = text.replacing("[.]", with: "[\(bucket)]")
                let permission = try #require(Permission(named), "\(named)")
                for role in Role.allCases {
                    let grants = Grants([
                        RoleGrant(role, bucket: role.isScoped ? "demo" : nil)
                    ])
                    #expect(
                        grants.allows(permission) == allowed.contains(role.rawValue),
                        "\(role.rawValue) \(named)"
                    )
                }
            }
        }
    }

    @Test func everyFieldOfABucketIsListedWithItsPermission() {
        let fields = BucketField.allCases.map { field in
            let need = field.permission(bucket: "b")?.text.replacing("[b]", with: "[.]")
            return "\(field.rawValue) \(need ?? "-")"
        }
        #expect(Set(fields) == Set(table.lines(of: "fields of a bucket")))
    }

    @Test func everyPermissionOfARouteHasARow() {
        let rows = Set(table.lines(of: "permissions").compactMap { PrivilegeTable.words($0).first })
        for part in ["admin port", "view port"] {
            for line in table.lines(of: part) {
                let need = PrivilegeTable.words(line).last ?? ""
                #expect(["open", "login"].contains(need) || rows.contains(need), "\(line)")
            }
        }
    }
}

/// The parts of `privileges.txt` by the names in brackets above them.
struct PrivilegeTable {
    private var parts: [String: [String]] = [:]

    init() throws {
        let file = URL(filePath: #filePath).appending(path: "../../Clients/privileges.txt")
        var part = ""
        for line in try String(contentsOf: file.standardized, encoding: .utf8).split(
            separator: "\n"
        ) {
            if line.hasPrefix("#") { continue }
            if line.hasPrefix("["), line.hasSuffix("]") {
                part = String(line.dropFirst().dropLast())
            } else {
                parts[part, default: []].append(Self.words(line).joined(separator: " "))
            }
        }
    }

    /// The lines of a part, with single spaces.
    func lines(of part: String) -> [String] { parts[part] ?? [] }

    static func words(_ line: String) -> [String] { words(line[...]) }

    static func words(_ line: Substring) -> [String] {
        line.split(separator: " ").map { String($0) }
    }
}
