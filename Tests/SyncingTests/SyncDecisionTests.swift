import JSON
import SyncWire
import Syncing
import Testing

@Suite struct SyncDecisionTests {
    private let jane = SyncUser(
        name: "jane",
        roles: ["editors"],
        channels: Set(["!", "_jane", "*"].compactMap { ChannelName($0) })
    )

    private func json(_ text: String) throws -> JSONValue { try #require(JSONValue.parse(text)) }

    private func outcome(
        _ calls: [SyncRun.Call],
        end: SyncRun.End = .returned,
        for user: SyncUser? = nil
    ) -> SyncDecision {
        SyncDecision(SyncRun(calls, end: end), for: user, dialect: .first)
    }

    private func channels(_ names: String...) -> Set<ChannelName> {
        Set(names.compactMap { ChannelName($0) })
    }

    @Test(arguments: [
        ("\"a\"", ["a"]), ("[\"a\",\"b\"]", ["a", "b"]), ("null", []), ("7", []), ("{}", []),
        ("[\"a\",[\"b\"],null,3]", ["a"]), ("[]", []), ("[\"a\",\"*\"]", ["*"]),
    ]) func channelCallAddsTheStringsOfItsArgument(text: String, names: [String]) throws {
        guard case .accepted(let found) = outcome([.channel([try json(text)])]) else {
            Issue.record("\(text) was refused")
            return
        }
        #expect(found.channels == Set(names.compactMap { ChannelName($0) }))
    }

    @Test func channelCallHasSeveralArguments() throws {
        let run = SyncRun([
            .channel([.string("a"), .null, .string("b")]), .channel([.string("c")]),
        ])
        guard case .accepted(let found) = SyncDecision(run, for: jane, dialect: .first) else {
            Issue.record("refused")
            return
        }
        #expect(found.channels == channels("a", "b", "c"))
    }

    @Test func accessCallGrantsChannelsToUsersAndRoles() throws {
        let call = SyncRun.Call.access(
            users: try json("[\"jane\",\"role:editors\",null]"),
            channels: try json("[\"a\",\"*\"]")
        )
        guard case .accepted(let found) = outcome([call]) else {
            Issue.record("refused")
            return
        }
        let expected = [
            PrincipalKey(.user, "jane"): channels("a"),
            PrincipalKey(.role, "editors"): channels("a"),
        ]
        #expect(found.access == expected)
    }

    @Test func accessCallWithoutUsersOrChannelsGrantsNothing() throws {
        for (users, names) in [("null", "\"a\""), ("\"jane\"", "null"), ("\"jane\"", "[]")] {
            let call = SyncRun.Call.access(users: try json(users), channels: try json(names))
            #expect(outcome([call]) == .accepted(SyncOutcome()))
        }
    }

    @Test func roleCallGrantsRolesWithoutTheirPrefix() throws {
        let call = SyncRun.Call.role(users: .string("jane"), roles: .string("role:editors"))
        guard case .accepted(let found) = outcome([call]) else {
            Issue.record("refused")
            return
        }
        #expect(found.roles == [PrincipalKey(.user, "jane"): ["editors"]])
    }

    @Test func invalidNamesFailTheRun() {
        let exception = SyncDecision.refused(Refusal(500, "Exception in JS sync function"))
        let error = SyncDecision.refused(Refusal(500, "Error in JS sync function"))
        #expect(outcome([.channel([.string("")])]) == exception)
        #expect(outcome([.channel([.string("a,b")])]) == exception)
        #expect(outcome([.access(users: .string("j"), channels: .string("a,b"))]) == exception)
        #expect(outcome([.role(users: .string("j"), roles: .string("editors"))]) == exception)
        #expect(outcome([.role(users: .string("j"), roles: .string("role:"))]) == exception)
        #expect(outcome([.access(users: .string("j/k"), channels: .string("a"))]) == error)
        #expect(outcome([.role(users: .string("j"), roles: .string("role:a b"))]) == error)
    }

    @Test(arguments: [
        (SyncRun.Claim.user(.string("joe")), "wrong user"),
        (.user(.null), "wrong user"),
        (.user(.array([.string("joe"), .array([.string("jane")])])), "wrong user"),
        (.role(.string("readers")), "missing role"),
        (.access(.string("news")), "missing channel access"),
        (.administrator, "admin required"),
    ]) func failedClaimIsRefusedInTheWordsOfTheDialect(claim: SyncRun.Claim, reason: String) {
        let run = SyncRun([.claim(claim)])
        #expect(SyncDecision(run, for: jane, dialect: .first) == .refused(Refusal(403, reason)))
        #expect(
            SyncDecision(run, for: jane, dialect: .third) == .refused(Refusal(403, "sg \(reason)"))
        )
        #expect(SyncDecision(run, for: nil, dialect: .first) == .accepted(SyncOutcome()))
    }

    @Test func satisfiedClaimsPass() throws {
        let calls: [SyncRun.Call] = [
            .claim(.user(try json("[\"joe\",\"jane\"]"))), .claim(.role(.string("editors"))),
            .claim(.access(try json("[\"news\",\"_jane\"]"))),
        ]
        #expect(outcome(calls, for: jane) == .accepted(SyncOutcome()))
    }

    @Test func guestHasTheEmptyName() {
        let guest = SyncUser(name: "", roles: [], channels: [.everyone])
        #expect(outcome([.claim(.user(.string("")))], for: guest) == .accepted(SyncOutcome()))
        let refused = SyncDecision.refused(Refusal(403, "wrong user"))
        #expect(outcome([.claim(.user(.string("jane")))], for: guest) == refused)
    }

    @Test func callsAfterAFailedClaimAreIgnored() {
        let claim = SyncRun.Call.claim(.user(.string("joe")))
        let wrong = SyncDecision.refused(Refusal(403, "wrong user"))
        // What the harness recorded behind it would not have happened.
        #expect(outcome([claim, .channel([.string("")])], for: jane) == wrong)
        #expect(outcome([claim], end: .failed("x"), for: jane) == wrong)
        let reject = SyncRun.Call.reject(status: .integer(409), reason: .string("first"))
        #expect(outcome([reject, claim], for: jane) == .refused(Refusal(409, "first")))
    }

    @Test(arguments: [
        (SyncRun.End.forbidden("no"), 403, "no"), (.unauthorized("who"), 401, "who"),
        (.failed("ReferenceError"), 500, "Exception in JS sync function"),
    ]) func exceptionRefuses(end: SyncRun.End, status: Int, reason: String) {
        #expect(outcome([], end: end) == .refused(Refusal(status, reason)))
    }

    @Test func firstRejectionCountsAndExceptionOutweighsIt() {
        let calls: [SyncRun.Call] = [
            .reject(status: .integer(200), reason: .string("too low")),
            .reject(status: .string("451"), reason: .string("law")),
            .reject(status: .integer(400), reason: .string("second")),
        ]
        #expect(outcome(calls) == .refused(Refusal(451, "law")))
        #expect(outcome(calls, end: .forbidden("late")) == .refused(Refusal(451, "law")))
        let exception = SyncDecision.refused(Refusal(500, "Exception in JS sync function"))
        #expect(outcome(calls, end: .failed("x")) == exception)
    }

    @Test(arguments: [
        ("60", 60), ("\"60\"", 60), ("\"2026-11-22T19:04:32Z\"", 1_795_374_272),
        ("\"2026-11-22T20:04:32.5+01:00\"", 1_795_374_272), ("\"1970-01-01T00:00:07Z\"", 7),
        ("\"2100-03-01T00:00:00Z\"", 4_107_542_400), ("-1", nil), ("\"-1\"", nil), ("null", nil),
        ("\"tomorrow\"", nil), ("\"2026-13-22T19:04:32Z\"", nil), ("{}", nil), ("1e12", nil),
        ("\"2026-11-22T19:04:32\"", nil), ("\"1969-01-01T00:00:07Z\"", nil),
    ]) func expiryIsANumberOrADate(text: String, seconds: UInt32?) throws {
        guard case .accepted(let found) = outcome([.expiry(try json(text))]) else {
            Issue.record("\(text) was refused")
            return
        }
        #expect(found.expiry == seconds)
    }

    @Test func databaseWithoutFunctionUsesTheMemberChannels() throws {
        let run = SyncRun.withoutFunction(channels: try json("[\"a\",1]"))
        guard case .accepted(let found) = SyncDecision(run, for: nil, dialect: .third) else {
            Issue.record("refused")
            return
        }
        #expect(found.channels == channels("a"))
        let none = SyncDecision(.withoutFunction(channels: nil), for: nil, dialect: .third)
        #expect(none == .accepted(SyncOutcome()))
    }
}
