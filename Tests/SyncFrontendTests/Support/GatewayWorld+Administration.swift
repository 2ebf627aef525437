import Bytes
import Foundation
import SyncFrontend
import SyncService
import SyncWire
import Testing

/// What tests of sessions and administration need.
extension GatewayWorld {
    /// Documents name their channels and users; one of type `bad` is refused.
    static let function =
        "function(doc, oldDoc) { if (doc.type == 'bad') throw({forbidden: 'bad type'});"
        + " channel(doc.channels); access(doc.users, doc.channels); }"

    /// A file with one database in memory and jane, joe and a disabled guest.
    ///
    /// - Parameters:
    ///   - dialect: `1.4` or `3`.
    ///   - sync: The sync function; nil for none.
    ///   - members: Further members of the file, each with a comma at its end.
    /// - Returns: The text of the file.
    static func file(
        _ dialect: String = "1.4",
        sync: String? = nil,
        _ members: String = ""
    ) -> String {
        let function = sync.map { "\"sync\": \"\($0)\"," } ?? ""
        return """
            {"compatibility": "\(dialect)", \(members) "databases": {"db": {"server": "walrus:",
              \(function) "users": {
                "GUEST": {"disabled": true},
                "jane": {"password": "password", "admin_channels": ["public", "jane"]},
                "joe": {"password": "password", "admin_channels": ["public", "joe"]}}}}}
            """
    }

    /// Runs a test with the routes of sessions, administration and changes.
    static func administered(
        _ configuration: String = GatewayWorld.file(),
        prepare: @escaping Preparation = { _ in },
        _ body: (GatewayWorld) async throws -> Void
    ) async throws {
        try await with(
            configuration,
            routes: { $0.administrationRoutes + $0.changesRoutes },
            prepare: prepare,
            body
        )
    }

    /// Asks the administration port.
    func administer(
        _ line: String,
        body: String? = nil,
        headers: [String] = []
    ) throws -> GatewayClient.Answer {
        try ask(line, .administrator, headers: headers, body: body)
    }

    /// Writes a document as the administrator; returns its revision or the reason of the refusal.
    func put(_ id: String, _ json: String, isEdit: Bool = true) async -> String {
        let gateway = gateway
        return await run {
            guard let database = gateway.databases["db"] else { return "no database" }
            let body = try? Array(json.utf8).withUnsafeBytes { try DocumentBody(ByteView($0)) }
            guard let body else { return "no document" }
            let sent = SentDocument(id, body, isEdit: isEdit)
            switch await database.write([sent], by: .administrator)[0] {
            case .success(let revision): return revision.description
            case .failure(let refusal): return refusal.reason
            }
        }
    }

    /// Waits up to ten seconds for a condition.
    func eventually(_ condition: () async throws -> Bool) async throws -> Bool {
        for _ in 0..<500 {
            if try await condition() { return true }
            try await Task.sleep(for: .milliseconds(20))
        }
        return false
    }
}

extension GatewayWorld {
    /// The feeds that are followed in the first database.
    func feedCount() async -> Int {
        let database = database
        return await run { database.feedCount }
    }

    /// The newest sequence of the first database.
    func updateSequence() async -> UInt64 {
        let database = database
        return await run { database.updateSequence }
    }
}

extension GatewayClient {
    /// Asks as jane on a thread of its own, because the answer comes late.
    func askLater(_ line: String) async throws -> Answer {
        let client = self
        let login = Data("jane:password".utf8).base64EncodedString()
        return try await withCheckedThrowingContinuation { waiter in
            Thread.detachNewThread {
                waiter.resume(
                    with: Result {
                        try client.ask(line, ["Authorization: Basic \(login)"], body: nil)
                    }
                )
            }
        }
    }
}

extension GatewayClient.Answer {
    /// The id of the session that the answer sets a cookie for; empty if it deletes it, nil without one.
    var session: String? {
        guard let cookie = headers["set-cookie"], cookie.hasPrefix("SyncGatewaySession=") else {
            return nil
        }
        return String(cookie.dropFirst("SyncGatewaySession=".count).prefix { $0 != ";" })
    }
}
