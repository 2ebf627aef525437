import Bytes
import JSON
import SyncWire
import Syncing
import Testing

@Suite struct PrincipalTests {
    private let first = PrincipalRules(dialect: .first)
    private let third = PrincipalRules(dialect: .third)
    private let jane = PrincipalKey(.user, "jane")

    private func update(_ body: String) throws -> PrincipalUpdate {
        try body.withView { view in Result { try PrincipalUpdate(parsing: view) } }.get()
    }

    private func changed(_ decision: PrincipalRules.Decision, at sequence: UInt64) throws
        -> Principal
    {
        guard case .change(let change) = decision else {
            Issue.record("\(decision)")
            throw Refusal.missing
        }
        return change.principal(at: sequence, credentials: [1])
    }

    private func text(_ body: (inout JSONWriter) -> Void) -> String {
        String(decoding: JSONWriter.text(body), as: UTF8.self)
    }

    private func access(_ principal: Principal) -> Access {
        Access(of: principal, documents: GrantIndex())
    }

    private func create(_ body: String, _ rules: PrincipalRules) throws -> Principal {
        let update = try update(body)
        let decision = rules.decide(update, for: jane, existing: nil, access: nil, method: .replace)
        return try changed(decision, at: 3)
    }

    @Test(arguments: [
        ("jane", true), ("", true), ("a.b-c+d@e_f%", true), ("a b", false), ("a/b", false),
        ("j\u{e4}ne", false), ("a,b", false), (String(repeating: "a", count: 240), false),
    ]) func namesHaveFewCharacters(name: String, isValid: Bool) {
        #expect(PrincipalKey.isValid(name: name) == isValid)
    }

    @Test func keptGrantKeepsItsSequence() {
        var set = grants(["a": 3, "b": 3])
        set.replace(with: channels("b c"), at: 7)
        #expect(set == grants(["b": 3, "c": 7]))
        set.formUnion(grants(["a": 1, "c": 2, "d": 9]), notBefore: 4)
        #expect(set == grants(["a": 4, "b": 3, "c": 4, "d": 9]))
    }

    @Test func channelOfARoleBeginsAtTheLaterOfItsTwoGrants() {
        var user = user("jane", grants(["a": 9, "b": 2]))
        user.roles = GrantSet(["r", "gone"], at: 5)
        var role = Principal(PrincipalKey(.role, "r"))
        role.channels = grants(["a": 3, "c": 8])
        var index = GrantIndex()
        var document = DocumentGrants()
        var outcome = SyncOutcome()
        outcome.access = [user.key: channels("b d"), role.key: channels("e")]
        outcome.roles = [user.key: ["s"]]
        document.replace(with: outcome, at: 6)
        let concerned = index.replace(DocumentGrants(), with: document)
        #expect(concerned == [user.key, role.key])
        let access = Access(of: user, documents: index) { $0 == "r" ? role : nil }
        #expect(access.channels == grants(["!": 1, "a": 9, "b": 2, "d": 6]))
        #expect(access.roles.grants.map(\.sequence) == [5, 5, 6])
        #expect(access.allChannels == grants(["!": 1, "a": 5, "b": 2, "c": 8, "d": 6, "e": 6]))
        #expect(access.permits(reading: channels("x c")))
        #expect(!access.permits(reading: channels("x")))
        #expect(!access.permits(reading: []))
    }

    @Test func randomGrantsOfDocumentsAgreeWithTheirUnion() {
        var random = SeededRandom(seed: 5)
        var index = GrantIndex()
        var documents: [String: DocumentGrants] = [:]
        for sequence in 1...400 as ClosedRange<UInt64> {
            let id = "d\(random.next() % 9)"
            var outcome = SyncOutcome()
            let names = ["a", "b", "c"].filter { _ in random.next() % 2 == 0 }
            if !names.isEmpty { outcome.access[jane] = channels(names.joined(separator: " ")) }
            let old = documents[id] ?? DocumentGrants()
            var new = old
            new.replace(with: outcome, at: sequence)
            _ = index.replace(old, with: new)
            documents[id] = new
            var union = GrantSet<ChannelName>()
            for document in documents.values {
                union.formUnion(document.channels[jane] ?? GrantSet())
            }
            #expect(index.channels(of: jane) == union)
        }
    }

    @Test func absentMembersAreEmptiedOrKeptByDialect() throws {
        let body = """
            {"name":"jane","password":"pass","email":"j@x.org","admin_channels":["a"],
            "admin_roles":["r"],"disabled":true}
            """
        for rules in [first, third] {
            let user = try create(body, rules)
            #expect(user.channels == grants(["a": 3]))
            #expect(user.email == "j@x.org" && user.isDisabled && user.passwordStamp == 3)
            let decision = rules.decide(
                try update("{\"disabled\":false}"),
                for: jane,
                existing: user,
                access: access(user),
                method: .replace
            )
            let next = try changed(decision, at: 9)
            #expect(next.channels == (rules.dialect == .first ? grants([:]) : grants(["a": 3])))
            #expect(next.email == (rules.dialect == .first ? "" : "j@x.org"))
            #expect(next.roles.names == (rules.dialect == .first ? [] : ["r"]))
            #expect(!next.isDisabled && next.credentials == [1] && next.passwordStamp == 3)
            #expect(next.sequence == 9)
        }
    }

    @Test func requestWithoutDifferenceNeedsNoSequence() throws {
        let user = try create("{\"password\":\"pass\",\"admin_channels\":[\"a\",\"b\"]}", first)
        let decision = first.decide(
            try update("{\"name\":\"jane\",\"admin_channels\":[\"b\",\"a\"]}"),
            for: jane,
            existing: user,
            access: access(user),
            method: .replace
        )
        #expect(decision == .unchanged)
    }

    @Test func passwordEndsSessionsOfAnExistingUserOnly() throws {
        let update = try update("{\"password\":\"pass\"}")
        let new = first.decide(update, for: jane, existing: nil, access: nil, method: .create)
        guard case .change(let created) = new else {
            Issue.record("\(new)")
            return
        }
        #expect(!created.endsSessions && created.isNew)
        let user = created.principal(at: 1, credentials: [])
        let again = first.decide(update, for: jane, existing: user, access: nil, method: .replace)
        guard case .change(let replaced) = again else {
            Issue.record("\(again)")
            return
        }
        #expect(replaced.endsSessions)
        #expect(replaced.principal(at: 8, credentials: [2]).passwordStamp == 8)
    }

    @Test(arguments: [
        ("{\"password\":\"pw\"}", "Passwords must be at least three 3 characters"),
        ("{}", "Empty passwords are not allowed "),
        ("{\"password\":\"pass\",\"admin_channels\":[\"a,b\"]}", "Illegal channel name \"a,b\""),
        ("{\"password\":\"pass\",\"admin_roles\":[\"a b\"]}", "Invalid role name \"a b\""),
    ]) func invalidUserIsRefused(body: String, reason: String) throws {
        let update = try update(body)
        let decision = first.decide(update, for: jane, existing: nil, access: nil, method: .create)
        #expect(decision == .refused(Refusal(400, reason)))
    }

    @Test func existingPrincipalIsNotCreatedAgain() throws {
        let user = try create("{\"password\":\"pass\"}", first)
        let update = try update("{\"password\":\"pass\"}")
        let decision = first.decide(update, for: jane, existing: user, access: nil, method: .create)
        #expect(decision == .refused(Refusal(409, "Already exists")))
    }

    @Test func emptyPasswordIsAllowedByDatabaseSetting() throws {
        let rules = PrincipalRules(dialect: .first, allowsEmptyPassword: true)
        #expect(try create("{}", rules).credentials == [])
    }

    @Test func derivedMembersAreReadOnlyInTheDialectOf3() throws {
        let user = try create("{\"password\":\"pass\",\"admin_channels\":[\"a\"]}", third)
        func decide(_ body: String) throws -> PrincipalRules.Decision {
            let update = try update(body)
            let access = access(user)
            return third.decide(update, for: jane, existing: user, access: access, method: .replace)
        }
        #expect(try decide("{\"all_channels\":[\"a\",\"!\"]}") == .unchanged)
        let channels = PrincipalRules.Decision.refused(Refusal(400, "all_channels is read-only"))
        #expect(try decide("{\"all_channels\":[\"b\"]}") == channels)
        let roles = PrincipalRules.Decision.refused(Refusal(400, "roles is read-only"))
        #expect(try decide("{\"roles\":[\"b\"]}") == roles)
    }

    @Test func nameOfThePathCounts() throws {
        func key(_ body: String, _ path: String?) throws -> Result<PrincipalKey, Refusal> {
            let update = try update(body)
            return Result { () throws(Refusal) in try first.key(of: update, .user, path: path) }
        }
        #expect(try key("{}", "GUEST") == .success(.guest))
        #expect(try key("{\"name\":\"jane\"}", nil) == .success(jane))
        #expect(try key("{\"name\":\"jane\"}", "jane") == .success(jane))
        #expect(try key("{}", nil) == .failure(Refusal(400, "Missing name property")))
        let mismatch = Refusal(400, "Name mismatch (can't change name)")
        #expect(try key("{\"name\":\"joe\"}", "jane") == .failure(mismatch))
        #expect(
            try key("{\"name\":\"a b\"}", nil) == .failure(Refusal(400, "Invalid name \"a b\""))
        )
    }

    @Test func patchAddsAndRemovesWithoutTheOtherGrants() throws {
        var user = user("jane", grants(["a": 2, "b": 2]))
        user.roles = GrantSet(["r"], at: 2)
        let body = """
            {"add":{"admin_channels":["c","b"]},"remove":{"admin_channels":["a"],"admin_roles":["r"]}}
            """
        let patch = try body.withView { view in Result { try PrincipalPatch(parsing: view) } }.get()
        let next = try changed(first.decide(patch, existing: user), at: 9)
        #expect(next.channels == grants(["b": 2, "c": 9]))
        #expect(next.roles.isEmpty)
        #expect(first.decide(patch, existing: nil) == .refused(.missing))
        #expect(first.decide(PrincipalPatch(), existing: user) == .unchanged)
    }

    @Test(arguments: [
        "[]", "{", "{\"admin_channels\":\"a\"}", "{\"admin_channels\":[1]}", "{\"name\":1}",
    ])
    func bodyOfAnotherShapeIsRefused(body: String) {
        #expect(throws: Refusal.self) { try update(body) }
    }

    /// As recorded from Sync Gateway 1.4.1.
    @Test func administrationPortShowsPrincipalsAsSyncGatewayDoes() {
        var guest = Principal.defaultGuest
        guest.channels = grants(["*": 1])
        let shown = text { guest.write(to: &$0, access: access(guest), dialect: .first) }
        let expected =
            #"{"name":"GUEST","admin_channels":["*"],"all_channels":["!","*"],"disabled":true}"#
        #expect(shown == expected)
        var user = user("jane", grants(["a": 2]))
        user.roles = GrantSet(["r"], at: 2)
        user.email = "j@x.org"
        user.credentials = [7]
        let own = text { user.write(to: &$0, access: access(user), dialect: .first) }
        let whole =
            #"{"name":"jane","admin_channels":["a"],"all_channels":["!","a"],"email":"j@x.org","#
            + #""admin_roles":["r"],"roles":["r"]}"#
        #expect(own == whole)
    }

    /// As recorded from Sync Gateway 1.4.1.
    @Test func sessionShowsTheSequencesOfGrants() {
        let jane = user("jane", grants(["_public": 3, "_jane": 3]))
        let shown = text { Principal.writeSession(of: jane, access: access(jane), to: &$0) }
        let expected =
            #"{"authentication_handlers":["default","cookie"],"ok":true,"#
            + #""userCtx":{"channels":{"!":1,"_jane":3,"_public":3},"name":"jane"}}"#
        #expect(shown == expected)
        let guest = Principal.defaultGuest
        let other = text { Principal.writeSession(of: guest, access: access(guest), to: &$0) }
        #expect(other.hasSuffix(#""userCtx":{"channels":{"!":1},"name":null}}"#))
    }

    @Test func historyHasEndedPeriodsOnceAndJoinsTheOldest() {
        var user = user("jane", grants(["a": 2]))
        var end: UInt64 = 3
        for _ in 1...13 {
            let before = access(user)
            user.channels = GrantSet()
            let after = access(user)
            user.recordLosses(from: before, to: after, at: end)
            user.recordLosses(from: before, to: after, at: end)
            user.channels = grants(["a": end + 1])
            end += 2
        }
        let periods = user.channelHistory.periods(of: channel("a"))
        #expect(periods.count == GrantHistory<ChannelName>.periodsMax)
        #expect(periods.first == GrantPeriod(start: 2, end: 9))
        #expect(periods.last == GrantPeriod(start: 26, end: 27))
        #expect(user.channelHistory.periods(of: .everyone) == [])
    }

    @Test func storedPrincipalIsReadAgainAndDamageIsRefused() throws {
        var user = user("jane", grants(["a": 2, "b": 1 << 40]))
        user.roles = GrantSet(["r"], at: 2)
        user.credentials = [1, 2, 3]
        user.email = "j@x.org"
        user.recordLosses(
            from: access(user),
            to: Access(of: Principal(jane), documents: GrantIndex()),
            at: 1 << 41
        )
        #expect(try Principal(decoding: user.encoded) == user)
        let bytes = user.encoded
        for count in bytes.indices {
            #expect(throws: CodingFailure.self) { try Principal(decoding: Array(bytes[..<count])) }
        }
        var random = SeededRandom(seed: 1)
        for _ in 1...2_000 {
            var damaged = bytes
            damaged[Int(random.next() % UInt64(bytes.count))] = UInt8(
                truncatingIfNeeded: random.next()
            )
            guard let other = try? Principal(decoding: damaged) else { continue }
            #expect(try Principal(decoding: other.encoded) == other)
        }
    }
}
