import Bytes
import SyncWire
import Testing

@Suite struct HeaderTests {
    @Test(
        arguments: [
            ("bytes=1-2", 5, .part(offset: 1, count: 2)),
            ("bytes=1-", 5, .part(offset: 1, count: 4)),
            ("bytes=-2", 5, .part(offset: 3, count: 2)), ("bytes=0-", 5, .whole),
            ("bytes=0-4", 5, .whole),
            ("bytes=0-99", 5, .whole), ("bytes=-9", 5, .whole),
            ("bytes=4-99", 5, .part(offset: 4, count: 1)),
            ("Bytes = 1-1", 5, .part(offset: 1, count: 1)), ("bytes=5-", 5, .unsatisfiable),
            ("bytes=9-10", 5, .unsatisfiable), ("bytes=-0", 5, .unsatisfiable),
            ("bytes=2-1", 5, .whole),
            ("bytes=-", 5, .whole), ("bytes=a-b", 5, .whole), ("bytes=1-2,3-4", 5, .whole),
            ("lines=1-2", 5, .whole),
            ("bytes", 5, .whole), ("", 5, .whole), (nil, 5, .whole),
            ("bytes=1-2", 0, .unsatisfiable),
            ("bytes=99999999999999999999-", 5, .whole),
            ("bytes=1-9223372036854775807", 5, .part(offset: 1, count: 4)),
            ("bytes=-9223372036854775807", 5, .whole), ("bytes=--1", 5, .whole),
        ] as [(String?, Int, ByteRange)]
    ) func rangeIsResolved(value: String?, length: Int, expected: ByteRange) {
        #expect(ByteRange(value, length: length) == expected)
    }

    @Test func contentRangeIsTheRecordedOne() {
        #expect(ByteRange.part(offset: 1, count: 2).contentRange(length: 5) == "bytes 1-2/5")
        #expect(ByteRange.unsatisfiable.contentRange(length: 5) == "bytes */5")
        #expect(ByteRange.whole.contentRange(length: 5) == nil)
    }

    @Test(
        arguments: [
            (nil, true, true), ("", true, true), ("*/*", true, true),
            ("application/json", true, false), ("multipart/related", false, true),
            ("multipart/*", false, true), ("Multipart/Mixed, application/json", true, true),
            ("application/json;q=0, multipart/related;q=0.5", false, true),
            ("text/html", false, false), ("application/json; q=0.0", false, false),
            (" , ", true, true),
        ] as [(String?, Bool, Bool)]
    ) func acceptIsParsed(value: String?, json: Bool, multipart: Bool) {
        let acceptance = Acceptance(value)
        #expect(acceptance.acceptsJSON == json)
        #expect(acceptance.acceptsMultipart == multipart)
    }

    @Test func formOfAnswersFollowsAccept() {
        #expect(Acceptance(nil).documentForm(hasBodies: true) == .multipart)
        #expect(Acceptance(nil).documentForm(hasBodies: false) == .json)
        #expect(Acceptance("application/json").documentForm(hasBodies: true) == .json)
        #expect(Acceptance("multipart/related").documentForm(hasBodies: false) == .multipart)
        #expect(Acceptance("multipart/related").listForm == .multipart)
        #expect(Acceptance("application/json").listForm == .json)
        #expect(Acceptance("multipart/mixed, application/json").listForm == .multipart)
        #expect(Acceptance("text/html").listForm == .none)
    }

    @Test(arguments: [
        ("Basic amFuZTpwYXNzd29yZA==", "jane", "password"), ("basic  OmE6Yg== ", "", "a:b"),
        ("Basic asO2OnDDpA==", "jö", "pä"),
    ]) func basicCredentialsAreParsed(value: String, name: String, password: String) throws {
        let credentials = try #require(BasicCredentials(authorization: value))
        #expect(credentials == BasicCredentials(name: name, password: password))
        #expect(BasicCredentials(authorization: credentials.authorization) == credentials)
    }

    @Test(arguments: [
        "", "Basic", "Basic ", "Basic amFuZQ==", "Bearer amFuZTpw", "Basic a", "Basic /zo=",
        "Basic ====",
    ])
    func malformedAuthorizationHasNoCredentials(value: String) {
        #expect(BasicCredentials(authorization: value) == nil)
    }

    /// One-time passwords are base64, whose `/`, `+` and `=` a URL has only escaped.
    @Test(arguments: [
        ("jane:p%2Fq%2Br%3D", "p/q+r="), ("jane:p+q", "p+q"), ("jane:", ""), ("jane:a:b", "a:b"),
        ("jane:%c3%b6", "ö"),
    ]) func loginOfAURLIsDecoded(text: String, password: String) {
        let credentials = view(text) { BasicCredentials(userInfo: $0) }
        #expect(credentials == BasicCredentials(name: "jane", password: password))
        #expect(view("jane") { BasicCredentials(userInfo: $0) } == nil)
        #expect(view("jane:%f") { BasicCredentials(userInfo: $0) } == nil)
    }

    @Test(
        arguments: [
            ("SyncGatewaySession=abc", "abc"), ("a=b; SyncGatewaySession=abc; c=d", "abc"),
            ("a=b;SyncGatewaySession=\"abc\"", "abc"), ("SyncGatewaySession=", ""),
            ("SyncGatewaySessionX=abc", nil),
            ("", nil), ("SyncGatewaySession", nil), (";;;", nil), ("SyncGatewaySession=a=b", "a=b"),
        ] as [(String, String?)]
    ) func cookieIsRead(header: String, expected: String?) {
        #expect(SessionCookie.value(of: SessionCookie.name, in: header) == expected)
    }

    @Test func cookieIsSetAsRecorded() {
        let cookie = SessionCookie.setting(
            id: "b36f74d4647f4175ae7ee4ea7430ea093a382efd",
            database: "demo",
            expiry: 1_795_374_272
        )
        #expect(
            cookie == "SyncGatewaySession=b36f74d4647f4175ae7ee4ea7430ea093a382efd; Path=/demo; "
                + "Expires=Sun, 22 Nov 2026 19:04:32 GMT"
        )
        let flagged = SessionCookie.setting(
            "s",
            id: "",
            database: "a b",
            expiry: -5,
            flags: SessionCookie.Flags(isSecure: true, isHTTPOnly: true)
        )
        #expect(
            flagged == "s=; Path=/a%20b; Expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; Secure"
        )
    }

    @Test(arguments: [
        (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"), (.max, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ]) func dateIsThatOfHTTP(seconds: Int, expected: String) {
        #expect(CalendarTime.httpText(unixSeconds: seconds) == expected)
    }

    @Test(
        arguments: [
            ("\"1-a\"", "1-a"), ("1-a", "1-a"), (" W/\"1-a\" ", "1-a"), ("*", "*"),
            ("\"a\\\"b\"", "a\"b"), ("", nil),
            ("\"1-a", nil), ("\"\"", ""), ("W/", nil),
        ] as [(String, String?)]
    ) func entityTagIsParsed(value: String, expected: String?) {
        #expect(EntityTag.text(of: value) == expected)
    }

    @Test func entityTagIsQuotedAsRecorded() {
        #expect(
            EntityTag.quoted("sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=")
                == "\"sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=\""
        )
        #expect(EntityTag.text(of: EntityTag.quoted("a\\\"b")) == "a\\\"b")
    }

    @Test func contentTypeHasParameters() throws {
        let type = try #require(
            ContentType(
                "Multipart/Related ; Boundary=\"a;b\\\"c\" x; charset = utf-8;;=;bad;start=\"<a>\""
            )
        )
        #expect(type.type == "multipart/related")
        #expect(type["boundary"] == "a;b\"c")
        #expect(type["CHARSET"] == "utf-8")
        #expect(type["start"] == "<a>")
        #expect(type["none"] == nil)
        #expect(ContentType("application/json")?.type == "application/json")
        for text in ["", "json", "a/", "/b", "a b/c", ";a=b", "a/b/c"] {
            #expect(ContentType(text) == nil)
        }
        #expect(throws: MultipartFailure.badBoundary) {
            try #require(ContentType("multipart/related")).multipartReader()
        }
        #expect(ContentType("a/b; x=\"open")?["x"] == nil)
    }

    @Test(
        arguments: [
            ("/", []), ("/db", ["db"]), ("/db/", ["db", ""]),
            ("/db/a%2Fb/att", ["db", "a/b", "att"]),
            ("/db/a+b%20c", ["db", "a+b c"]), ("/db/%c3%b6", ["db", "ö"]), ("", nil), ("db", nil),
            ("/%", nil),
            ("/%2", nil), ("/%g0", nil), ("/%ff", nil), ("//", ["", ""]),
        ] as [(String, [String]?)]
    ) func pathIsDividedBeforeItIsDecoded(path: String, expected: [String]?) {
        #expect(view(path) { PercentCoding.segments(ofPath: $0) } == expected)
    }

    @Test func encodedTextIsDecoded() {
        let text = "a/b c+ö%\u{0}~-._"
        let encoded = PercentCoding.encode(text)
        #expect(encoded == "a%2Fb%20c%2B%C3%B6%25%00~-._")
        #expect(view(encoded) { PercentCoding.decode($0) } == text)
        #expect(view(encoded) { PercentCoding.decode($0, plusIsBlank: true) } == text)
    }
}
