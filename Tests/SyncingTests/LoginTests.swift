import Bytes
import SyncWire
import Syncing
import Testing

@Suite struct LoginTests {
    private let first = LoginOrder(dialect: .first, acceptsTokens: true)
    private let third = LoginOrder(dialect: .third, acceptsTokens: false)
    private let random = [UInt8](repeating: 0xab, count: 20)

    private func session(
        of user: Principal,
        seconds: Int = 1_000,
        isOneTime: Bool = false
    ) throws -> LoginSession {
        try LoginSession(of: user, random: random, now: 100, seconds: seconds, isOneTime: isOneTime)
    }

    @Test func loginPrefersTokenThenPasswordThenSessionThenGuest() {
        let password = BasicCredentials(name: "jane", password: "p")
        var offer = LoginOffer()
        #expect(first.firstStep(of: offer) == .guest)
        offer.sessionID = "s"
        #expect(first.firstStep(of: offer) == .checkSession(id: "s"))
        offer.basic = BasicCredentials(name: "", password: "")
        #expect(first.firstStep(of: offer) == .checkSession(id: "s"))
        offer.basic = password
        #expect(first.firstStep(of: offer) == .verifyPassword(password))
        offer.bearerToken = "t"
        #expect(first.firstStep(of: offer) == .verifyToken("t"))
        #expect(third.firstStep(of: offer) == .verifyPassword(password))
    }

    @Test func refusedLoginsHaveStatusReasonAndChallenge() {
        let guest = Principal.defaultGuest
        #expect(first.decide(guest: guest) == .refused(.loginRequired))
        #expect(LoginRefusal.loginRequired.refusal == Refusal(401, "Login required"))
        #expect(LoginRefusal.loginRequired.hasChallenge)
        #expect(first.decide(password: nil, isRight: true) == .refused(.invalidLogin))
        #expect(first.decide(password: user("u"), isRight: false) == .refused(.invalidLogin))
        #expect(LoginRefusal.invalidLogin.refusal == Refusal(401, "Invalid login"))
        var disabled = user("u")
        disabled.isDisabled = true
        #expect(first.decide(password: disabled, isRight: true) == .refused(.invalidLogin))
        #expect(first.decide(password: user("u"), isRight: true) == .accepted(user("u").key))
        #expect(first.decide(token: nil) == .refused(.invalidToken))
    }

    @Test func unknownSessionIsTheGuestOnlyInTheFirstDialect() {
        var guest = Principal(.guest)
        #expect(first.decide(session: nil, guest: guest) == .accepted(.guest))
        #expect(third.decide(session: nil, guest: guest) == .refused(.invalidSession))
        guest.isDisabled = true
        #expect(first.decide(session: nil, guest: guest) == .refused(.loginRequired))
        #expect(third.decide(session: user("u").key, guest: guest) == .accepted(user("u").key))
    }

    @Test func newSessionIsThatOfTheBodyOrOfTheRequest() {
        let key = user("u").key
        #expect(
            first.decideNewSession(named: user("v"), requester: key) == .accepted(user("v").key)
        )
        #expect(first.decideNewSession(named: nil, requester: key) == .accepted(key))
        let refused = first.decideNewSession(named: nil, requester: .guest)
        #expect(refused == .refused(.invalidSessionLogin))
        #expect(!LoginRefusal.invalidSessionLogin.hasChallenge)
    }

    @Test func sessionIsRenewedAfterATenthOfItsLife() throws {
        let session = try session(of: user("u"))
        #expect(session.id == String(repeating: "ab", count: 20))
        #expect(session.expires == 1_100)
        #expect(session.check(user("u"), now: 100) == .valid)
        #expect(session.check(user("u"), now: 200) == .valid)
        guard case .renewed(let renewed) = session.check(user("u"), now: 201) else {
            Issue.record("not renewed")
            return
        }
        #expect(renewed.expires == 1_201 && renewed.id == session.id)
        #expect(session.check(user("u"), now: 1_100) == .ended)
    }

    @Test func sessionEndsWithItsPasswordOrItsUser() throws {
        var owner = user("u")
        owner.passwordStamp = 4
        let session = try session(of: owner)
        #expect(session.check(owner, now: 101) == .valid)
        owner.passwordStamp = 9
        #expect(session.check(owner, now: 101) == .ended)
        #expect(session.check(nil, now: 101) == .ended)
        owner.passwordStamp = 4
        owner.isDisabled = true
        #expect(session.check(owner, now: 101) == .disabled)
    }

    @Test func oneTimeSessionIsNeverRenewed() throws {
        let session = try session(of: user("u"), isOneTime: true)
        #expect(session.check(user("u"), now: 900) == .validOnce)
    }

    @Test func sessionNeedsALifeAndAnEnabledUser() {
        for seconds in [0, -1, Int.max] {
            #expect(throws: Refusal(400, "Invalid or missing ttl")) {
                try session(of: user("u"), seconds: seconds)
            }
        }
        var disabled = user("u")
        disabled.isDisabled = true
        #expect(throws: Refusal(400, "User is disabled")) { try session(of: disabled) }
    }

    @Test func storedSessionIsReadAgain() throws {
        let session = try session(of: user("u"), isOneTime: true)
        #expect(try LoginSession(decoding: session.encoded) == session)
        #expect(throws: CodingFailure.self) {
            try LoginSession(decoding: session.encoded.dropLast())
        }
    }
}

@Suite struct CrossOriginTests {
    private let policy = CrossOriginPolicy(
        origins: ["http://a", "*"],
        loginOrigins: ["http://a"],
        headers: ["X-One", "X-Two"],
        maxAgeSeconds: 60
    )

    private func headers(_ origins: [String], _ methods: [String]? = nil) -> [String] {
        policy.answerHeaders(origins: origins, methods: methods).map { "\($0.name): \($0.value)" }
    }

    @Test func namedOriginIsAnsweredElseTheStar() {
        #expect(headers([]) == [])
        let expected = [
            "Access-Control-Allow-Origin: http://a", "Access-Control-Allow-Credentials: true",
            "Access-Control-Allow-Headers: X-One, X-Two",
        ]
        #expect(headers(["http://b", "http://a"]) == expected)
        #expect(headers(["http://b"]).first == "Access-Control-Allow-Origin: *")
        let strict = CrossOriginPolicy(
            origins: ["http://a"],
            loginOrigins: [],
            headers: [],
            maxAgeSeconds: 0
        )
        #expect(strict.answerHeaders(origins: ["http://b"]).first?.value == "")
    }

    @Test func optionsNameTheMethods() {
        let added = ["Access-Control-Max-Age: 60", "Access-Control-Allow-Methods: GET, PUT"]
        #expect(headers(["http://a"], ["GET", "PUT"]).suffix(2) == added)
    }

    @Test func loginNeedsAnOriginThatMayLogIn() {
        let refusal = Refusal(400, "No CORS")
        #expect(CrossOriginPolicy.refusal(ofLoginFrom: [], policy) == nil)
        #expect(CrossOriginPolicy.refusal(ofLoginFrom: [], nil) == nil)
        #expect(CrossOriginPolicy.refusal(ofLoginFrom: ["http://a"], policy) == nil)
        #expect(CrossOriginPolicy.refusal(ofLoginFrom: ["http://b"], policy) == refusal)
        #expect(CrossOriginPolicy.refusal(ofLoginFrom: ["http://a"], nil) == refusal)
    }
}
