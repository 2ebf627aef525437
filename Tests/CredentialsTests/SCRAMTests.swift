import Bytes
import Credentials
import Testing

@Suite struct SCRAMTests {
    struct Exchange {
        let mechanism: SCRAMMechanism
        let salt: String
        let clientNonce: String
        let serverNonce: String
        let proof: String
        let signature: String
    }

    /// The examples of RFC 5802 (section 5) and RFC 7677 (section 3).
    ///
    /// No RFC has an example of SHA-512: this one uses the nonces of RFC 7677, and another
    /// implementation computed it.
    static let exchanges = [
        Exchange(
            mechanism: .sha1,
            salt: "QSXCR+Q6sek8bf92",
            clientNonce: "fyko+d2lbbFgONRv9qkxdawL",
            serverNonce: "3rfcNHYJY1ZVvWVs7j",
            proof: "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            signature: "rmF9pqV8S7suAoZWja4dJRkFsKQ="
        ),
        Exchange(
            mechanism: .sha256,
            salt: "W22ZaJ0SNY7soEsUEjb6gQ==",
            clientNonce: "rOprNGfwEbeRWgbNEkqO",
            serverNonce: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            proof: "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            signature: "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        ),
        Exchange(
            mechanism: .sha512,
            salt: "Yzzkl+l/CkRmRH6Y9Hb9Dg==",
            clientNonce: "rOprNGfwEbeRWgbNEkqO",
            serverNonce: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            proof:
                "QCXf9/IqsyZH1A3xJol5Rve5BPKHb7yqMUTmO3aVOuiCUgl5BQ2n2TeL2QWtjAIbVYGY5HIvV1VKSNmm0"
                + "/yA5w==",
            signature:
                "+DrZ3sXnP/RNBkD8UQXXxGYm1E24iPEdCVvNubdH3ZvpTk67QY7B4/EPSRhPVsDhIAFK9E8l3aXJK"
                + "dzoBYeFKA=="
        ),
    ]

    let pencil = bytes("pencil").withView { password in
        StoredCredentials.derive(password: password, iterations: 4_096, withSHA1: true) {
            mechanism in
            let salt = exchanges.first { $0.mechanism == mechanism }?.salt ?? ""
            return bytes(salt).withView { Base64.decode($0) } ?? []
        }
    }
    let rules = PasswordRules(decoySecret: bytes("a secret of this test"), iterations: 5_000)
    let serverNonce = bytes("a server's own nonce")

    private func start(
        _ mechanism: SCRAMMechanism,
        _ clientFirst: String,
        serverNonce: [UInt8]? = nil
    ) -> (exchange: SCRAMServer, text: String)? {
        let challenge = bytes(clientFirst).withView { message in
            SCRAMServer.start(
                mechanism,
                clientFirst: message,
                serverNonce: serverNonce ?? self.serverNonce,
                rules: rules,
                lookup: { $0 == "user" || $0 == "a,b=c" ? pencil : nil }
            )
        }
        guard case .answer(let exchange, let serverFirst) = challenge else { return nil }
        return (exchange, String(decoding: serverFirst, as: UTF8.self))
    }

    private func finish(_ exchange: SCRAMServer, _ clientFinal: String) -> SCRAMServer.Decision {
        bytes(clientFinal).withView { exchange.finish(clientFinal: $0) }
    }

    @Test(arguments: exchanges.indices)
    func exchangeAgreesWithTheExamplesOfTheRFCs(index: Int) throws {
        let example = SCRAMTests.exchanges[index]
        let nonce = example.clientNonce + example.serverNonce
        let started = try #require(
            start(
                example.mechanism,
                "n,,n=user,r=\(example.clientNonce)",
                serverNonce: bytes(example.serverNonce)
            )
        )
        #expect(started.text == "r=\(nonce),s=\(example.salt),i=4096")
        #expect(
            finish(started.exchange, "c=biws,r=\(nonce),p=\(example.proof)")
                == .authenticated(user: "user", serverFinal: bytes("v=\(example.signature)"))
        )
        var wrong = bytes(example.proof)
        wrong[3] = wrong[3] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        let proof = String(decoding: wrong, as: UTF8.self)
        #expect(finish(started.exchange, "c=biws,r=\(nonce),p=\(proof)") == .refused)
        #expect(
            finish(started.exchange, "c=biws,r=\(nonce)x,p=\(example.proof)") == .refused
        )
        #expect(
            finish(started.exchange, "c=eSws,r=\(nonce),p=\(example.proof)") == .refused
        )
    }

    /// Runs both sides; nil if a message was malformed.
    private func logIn(
        _ mechanism: SCRAMMechanism,
        user: String,
        password: String,
        nonce: String = "client nonce"
    ) -> SCRAMServer.Decision? {
        logIn(mechanism, user: user, password: SCRAMPassword(password), nonce: nonce)
    }

    private func logIn(
        _ mechanism: SCRAMMechanism,
        user: String,
        password: SCRAMPassword,
        nonce: String = "client nonce"
    ) -> SCRAMServer.Decision? {
        let client = SCRAMClient(mechanism, user: user, nonce: bytes(nonce))
        let clientFirst = String(decoding: client.clientFirst, as: UTF8.self)
        guard let (exchange, serverFirst) = start(mechanism, clientFirst) else { return nil }
        let answer = bytes(serverFirst).withView {
            client.answer(serverFirst: $0, password: password)
        }
        guard case .send(let next, let clientFinal) = answer else { return nil }
        let decision = clientFinal.withView { exchange.finish(clientFinal: $0) }
        if case .authenticated(_, let serverFinal) = decision {
            #expect(serverFinal.withView { next.isGenuine(serverFinal: $0) })
            #expect(!(serverFinal + [65]).withView { next.isGenuine(serverFinal: $0) })
            #expect(!serverFinal.withView { client.isGenuine(serverFinal: $0) })
        }
        return decision
    }

    @Test(arguments: SCRAMMechanism.allCases)
    func onlyTheRightPasswordOfAKnownUserIsAuthenticated(mechanism: SCRAMMechanism) {
        func isAuthenticated(_ decision: SCRAMServer.Decision?, as user: String) -> Bool {
            guard case .authenticated(user, _)? = decision else { return false }
            return true
        }
        #expect(isAuthenticated(logIn(mechanism, user: "user", password: "pencil"), as: "user"))
        #expect(isAuthenticated(logIn(mechanism, user: "a,b=c", password: "pencil"), as: "a,b=c"))
        #expect(logIn(mechanism, user: "user", password: "Pencil") == .refused)
        #expect(logIn(mechanism, user: "user", password: "") == .refused)
        #expect(logIn(mechanism, user: "unknown", password: "pencil") == .refused)
    }

    /// The C++ client's nonce is a dump of numbers, separated by spaces.
    @Test func nonceMayContainAnythingButCommas() throws {
        let nonce = "0x03 0x7c 0xffffff9e =2C p=x "
        let decision = logIn(.sha512, user: "user", password: "pencil", nonce: nonce)
        guard case .authenticated("user", _)? = decision else {
            Issue.record("refused: \(String(describing: decision))")
            return
        }
        let started = try #require(start(.sha512, "n,,n=user,r=\(nonce)"))
        #expect(started.text.hasPrefix("r=\(nonce)a server's own nonce,s="))
        #expect(started.text.split(separator: ",").count == 3)
    }

    @Test func challengeOfUnknownUserHasFormOfKnownUsers() throws {
        let first = try #require(start(.sha256, "n,,n=unknown,r=x"))
        let again = try #require(start(.sha256, "n,,n=unknown,r=x"))
        let other = try #require(start(.sha256, "n,,n=another,r=x"))
        #expect(first.text == again.text)
        #expect(first.text != other.text)
        let salted = bytes("").withView { password in
            StoredCredentials.derive(password: password, iterations: rules.iterations) { _ in
                [UInt8](repeating: 1, count: StoredCredentials.saltByteCount)
            }
        }
        let challenge = bytes("n,,n=user,r=x").withView { message in
            SCRAMServer.start(
                .sha256,
                clientFirst: message,
                serverNonce: serverNonce,
                rules: rules,
                lookup: { _ in salted }
            )
        }
        guard case .answer(_, let known) = challenge else {
            Issue.record("a known user got no challenge")
            return
        }
        // Length and rounds are equal: only the salt differs.
        #expect(known.count == first.text.utf8.count)
        #expect(first.text.hasSuffix(",i=5000"))
    }

    @Test func malformedFirstMessageIsReported() {
        let messages = [
            "", "n", "n,", "n,,", "n,,n=user", "n,,r=x,n=user", "n,,n=user,r=", "n,n=user,r=x",
            "p=tls-unique,,n=user,r=x", "x,,n=user,r=x", "n,,m=ext,n=user,r=x", "n,,n=,r=x",
            "n,,n=us=er,r=x", "n,,n=user=,r=x", "n,,n=user=2,r=x", "n,,n=user=2c,r=x",
            "n,a=other,n=user,r=x", "n,a,n=user,r=x",
            "n,,n=user,r=" + String(repeating: "x", count: 1_025),
        ]
        for message in messages { #expect(start(.sha1, message) == nil, "\(message)") }
        #expect(start(.sha1, "y,,n=user,r=x") != nil)
        #expect(start(.sha1, "n,a=user,n=user,r=x") != nil)
        #expect(start(.sha1, "n,,n=user,r=x,ext=1") != nil)
        let illFormed = bytes("n,,n=") + [0xff] + bytes(",r=x")
        let challenge = illFormed.withView { message in
            SCRAMServer.start(
                .sha1,
                clientFirst: message,
                serverNonce: serverNonce,
                rules: rules,
                lookup: { _ in pencil }
            )
        }
        guard case .malformed = challenge else {
            Issue.record("a user name that is not UTF-8 was accepted")
            return
        }
    }

    @Test func malformedLastMessageIsReported() throws {
        let started = try #require(start(.sha1, "n,,n=user,r=x"))
        let proof = "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
        let messages = [
            "", "c=biws", "c=biws,r=x", "c=biws,r=x,p", "c=biws,r=x,p=", "c=biws,r=x,p=!!!!",
            "c=biws,r=x,p=AAAA", "r=x,c=biws,p=\(proof)", "c=biws,p=\(proof)",
            "c=biws,r=x,p=\(proof),", "c=biws,r=x,p=\(proof) ",
        ]
        for message in messages {
            #expect(finish(started.exchange, message) == .malformed, "\(message)")
        }
        #expect(finish(started.exchange, "c=biws,r=x,p=\(proof)") == .refused)
    }

    @Test func clientReusesDerivedKeysForItsOtherConnections() {
        let password = SCRAMPassword("pencil")
        for round in 0..<3 {
            for mechanism in [SCRAMMechanism.sha512, .sha256] {
                let decision = logIn(
                    mechanism,
                    user: "user",
                    password: password,
                    nonce: "nonce \(round)"
                )
                guard case .authenticated("user", _)? = decision else {
                    Issue.record("refused in round \(round)")
                    continue
                }
            }
            #expect(password.derivedCount == 2)
        }
        // The cache is bounded, whatever number of salts a server sends.
        let client = SCRAMClient(.sha1, user: "user", nonce: bytes("abc"))
        for iterations in 1...20 {
            let answer = bytes("r=abcdef,s=QSXC,i=\(iterations)").withView {
                client.answer(serverFirst: $0, password: password)
            }
            guard case .send = answer else {
                Issue.record("\(iterations) rounds are refused")
                continue
            }
        }
        #expect(password.derivedCount == 4)
    }

    @Test func clientRefusesAMalformedChallenge() {
        let client = SCRAMClient(.sha1, user: "user", nonce: bytes("abc"))
        let messages = [
            "", "r=abcdef", "r=abc,s=QSXC,i=10", "r=xbcdef,s=QSXC,i=10", "r=abcdef,s=,i=10",
            "r=abcdef,s=QSXC,i=0", "r=abcdef,s=QSXC,i=1000001", "r=abcdef,s=Q,i=10",
            "r=abcdef,s=QSXC,i=10,x=y",
        ]
        for message in messages {
            let answer = bytes(message).withView {
                client.answer(serverFirst: $0, password: SCRAMPassword("p"))
            }
            guard case .malformed = answer else {
                Issue.record("accepted \(message)")
                continue
            }
        }
    }

    @Test func randomMessagesDoNotCrashTheParsers() throws {
        var random = SeededRandom(seed: 3)
        let started = try #require(start(.sha256, "n,,n=user,r=x"))
        let alphabet = bytes("ncrpam=,,==2C3Dyxuser A+/") + [0, 255]
        for _ in 0..<5_000 {
            let message = (0..<Int.random(in: 0...40, using: &random)).map { _ in
                alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
            }
            message.withView { view in
                _ = started.exchange.finish(clientFinal: view)
                _ = SCRAMServer.start(
                    .sha256,
                    clientFirst: view,
                    serverNonce: serverNonce,
                    rules: rules,
                    lookup: { _ in nil }
                )
                _ = PasswordLogin(plain: view)
                _ = Base64.decode(view)
            }
        }
    }
}
