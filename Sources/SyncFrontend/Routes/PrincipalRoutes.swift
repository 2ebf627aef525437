internal import Bytes
internal import JSON
internal import SyncService
internal import SyncWire
internal import Syncing

/// Users and roles, for administrators.
extension Gateway {
    package var principalRoutes: [GatewayRoute] { routes(of: .user) + routes(of: .role) }

    private func routes(of kind: PrincipalKey.Kind) -> [GatewayRoute] {
        let path = kind == .user ? "_user/" : "_role/"
        return [
            administrationRoute([.get], path) { call async throws(Refusal) in
                await call.listPrincipals(kind)
            },
            administrationRoute([.post], path) { call async throws(Refusal) in
                try await call.changePrincipal(kind, path: nil)
            },
            administrationRoute([.get], path + "{name}") { call async throws(Refusal) in
                try await call.answerPrincipal(kind)
            },
            administrationRoute([.put], path + "{name}") { call async throws(Refusal) in
                try await call.changePrincipal(kind, path: call.parameter("name"))
            },
            administrationRoute([.patch], path + "{name}") { call async throws(Refusal) in
                let body = try await call.body()
                let patch = try body.withView { (text) throws(Refusal) in
                    try PrincipalPatch(parsing: text)
                }
                let key = PrincipalKey(kind, externalName: call.parameter("name"))
                try call.answer(await call.database.change(patch, key))
            },
            administrationRoute([.delete], path + "{name}") { call async throws(Refusal) in
                try await call.deletePrincipal(kind)
            },
        ]
    }
}

extension RouteCall {
    fileprivate func listPrincipals(_ kind: PrincipalKey.Kind) async {
        let names = await database.principalNames(kind)
        answerPrincipal { writer in
            writer.array { writer in
                // Sync Gateway does not list the guest.
                for name in names where name != PrincipalConfiguration.guestName {
                    writer.value(name)
                }
            }
        }
    }

    /// - Throws: `Refusal` 404.
    fileprivate func answerPrincipal(_ kind: PrincipalKey.Kind) async throws(Refusal) {
        let key = PrincipalKey(kind, externalName: parameter("name"))
        var found = await database.principal(key)
        // The guest exists always.
        if key == .guest, let guest = await database.requester(key), let user = guest.user,
            let access = guest.access
        {
            found = (user, access)
        }
        guard let (principal, access) = found else { throw .missing }
        answerPrincipal { writer in
            principal.write(to: &writer, access: access, dialect: database.dialect)
        }
    }

    private func answerPrincipal(_ write: (inout JSONWriter) -> Void) {
        let text = String(decoding: JSONWriter.text(write), as: UTF8.self)
        exchange.answer(database.dialect.unnamedType, text)
    }

    /// - Throws: `Refusal` 400, 409 or 507.
    fileprivate func changePrincipal(
        _ kind: PrincipalKey.Kind,
        path: String?
    ) async throws(Refusal) {
        let body = try await body()
        if let mistake = Self.goMistake(in: body.bytes) {
            throw Refusal(400, "Invalid JSON: \"\(mistake)\"")
        }
        let update = try body.withView { (text) throws(Refusal) in
            try PrincipalUpdate(parsing: text)
        }
        let method: PrincipalRules.Method = path == nil ? .create : .replace
        try answer(await database.change(update, kind, path: path, method: method))
    }

    /// The text of Go's parser for a body that does not begin with a JSON value, as Sync Gateway shows it; nil
    /// if it does.
    private static func goMistake(in body: [UInt8]) -> String? {
        guard let first = body.first(where: { !" \t\r\n".utf8.contains($0) }) else {
            return "unexpected end of JSON input"
        }
        if "{[\"-0123456789tfn".utf8.contains(first) { return nil }
        let character = Character(UnicodeScalar(first))
        return "invalid character '\(character)' looking for beginning of value"
    }

    /// - Throws: `Refusal` if the change was refused.
    fileprivate func answer(_ outcome: SyncDatabase.PrincipalOutcome) throws(Refusal) {
        switch outcome {
        case .created: exchange.answer(201)
        case .changed, .unchanged: exchange.answer(200)
        case .refused(let refusal): throw refusal
        }
    }

    /// - Throws: `Refusal` 404, or 405 for the guest in the dialect of 3.
    fileprivate func deletePrincipal(_ kind: PrincipalKey.Kind) async throws(Refusal) {
        let key = PrincipalKey(kind, externalName: parameter("name"))
        if key == .guest {
            guard database.dialect == .third else { throw .missing }
            let name = PrincipalConfiguration.guestName
            throw Refusal(405, "The \(name) user cannot be deleted. Only disabled via an update.")
        }
        guard await database.delete(key) else { throw .missing }
        exchange.answer(200)
    }
}
