import Bytes
import Credentials
import Testing

@Suite struct PasswordTests {
    static func derive(_ password: String, salt: UInt8 = 1) -> StoredCredentials {
        bytes(password).withView { password in
            StoredCredentials.derive(password: password, iterations: 4_096, withSHA1: true) { _ in
                [UInt8](repeating: salt, count: StoredCredentials.saltByteCount)
            }
        }
    }

    let stored = derive("secret")

    private func login(_ user: String, _ password: String) -> PasswordLogin {
        PasswordLogin(user: user, password: bytes(password))
    }

    @Test func onlyTheRightPasswordIsAccepted() {
        let verifier = PasswordVerifier(secret: bytes("0123456789abcdef"))
        for _ in 0..<2 {
            #expect(verifier.verify(login("ada", "secret"), stored: stored))
            #expect(!verifier.verify(login("ada", "Secret"), stored: stored))
            #expect(!verifier.verify(login("ada", ""), stored: stored))
            #expect(!verifier.verify(login("bob", "secret"), stored: nil))
        }
        let empty = PasswordTests.derive("")
        #expect(verifier.verify(login("ada", ""), stored: empty))
        #expect(!verifier.verify(login("ada", "\0"), stored: stored))
    }

    @Test func storedTextIsParsedEqualAfterOtherTexts() {
        let verifier = PasswordVerifier(secret: bytes("0123456789abcdef"))
        let other = PasswordTests.derive("other")
        for _ in 0..<2 {
            #expect(verifier.credentials(stored: bytes(stored.text)) == stored)
            #expect(verifier.credentials(stored: bytes(stored.text)) == stored)
            #expect(verifier.credentials(stored: bytes(other.text)) == other)
            #expect(verifier.credentials(stored: bytes("unknown format")) == nil)
        }
    }

    @Test func resultIsKnownOnceThePasswordWasChecked() {
        let verifier = PasswordVerifier(secret: bytes("0123456789abcdef"))
        for (password, isRight) in [("secret", true), ("Secret", false)] {
            let attempt = login("ada", password)
            #expect(verifier.knownResult(of: attempt, stored: stored) == nil)
            #expect(verifier.verify(attempt, stored: stored) == isRight)
            #expect(verifier.knownResult(of: attempt, stored: stored) == isRight)
            #expect(verifier.knownResult(of: attempt, stored: nil) == nil)
        }
        let changed = PasswordTests.derive("new", salt: 2)
        #expect(verifier.knownResult(of: login("ada", "secret"), stored: changed) == nil)
    }

    @Test func resultIsKnownOnlyForItsOwnUserPasswordAndStoredKey() {
        let verifier = PasswordVerifier(secret: bytes("0123456789abcdef"))
        let logins = [
            login("ada", "secret"), login("ada", "secre"), login("ad", "asecret"), login("", ""),
        ]
        let others = PasswordTests.derive("secret", salt: 2)
        #expect(verifier.verify(logins[0], stored: stored))
        for _ in 0..<2 {
            #expect(verifier.knownResult(of: logins[0], stored: stored) == true)
            for other in logins.dropFirst() {
                #expect(verifier.knownResult(of: other, stored: stored) == nil)
            }
            #expect(verifier.knownResult(of: logins[0], stored: others) == nil)
        }
    }

    @Test func resultIsCachedUntilThePasswordChanges() {
        let verifier = PasswordVerifier(secret: bytes("0123456789abcdef"))
        let clock = ContinuousClock()
        let first = clock.measure {
            #expect(verifier.verify(login("ada", "secret"), stored: stored))
        }
        let many = clock.measure {
            for _ in 0..<100 { #expect(verifier.verify(login("ada", "secret"), stored: stored)) }
        }
        // A hundred cached checks take less time than ten derivations.
        #expect(many < first * 10)
        let changed = PasswordTests.derive("new", salt: 2)
        #expect(!verifier.verify(login("ada", "secret"), stored: changed))
        #expect(verifier.verify(login("ada", "new"), stored: changed))
        #expect(!verifier.verify(login("ada", "secret"), stored: nil))
    }

    @Test func wrongGuessesDoNotEvictARightPassword() {
        let verifier = PasswordVerifier(secret: bytes("0123456789abcdef"), entriesMax: 4)
        let clock = ContinuousClock()
        #expect(verifier.verify(login("ada", "secret"), stored: stored))
        let guesses = clock.measure {
            for guess in 0..<10 {
                #expect(!verifier.verify(login("ada", "guess \(guess)"), stored: stored))
            }
        }
        let again = clock.measure {
            for _ in 0..<10 { #expect(verifier.verify(login("ada", "secret"), stored: stored)) }
        }
        #expect(again < guesses / 2)
    }

    @Test func userEvictedFromTheCacheIsVerifiedAgain() {
        let verifier = PasswordVerifier(secret: bytes("0123456789abcdef"), entriesMax: 4)
        for round in 0..<2 {
            for user in 0..<9 {
                #expect(
                    verifier.verify(login("user \(user)", "secret"), stored: stored),
                    "\(round)"
                )
            }
        }
    }

    @Test func credentialsSurviveStorageAsText() throws {
        let line = stored.text
        #expect(line.hasPrefix("scram-1;SCRAM-SHA512,4096,"))
        #expect(!line.contains("\n") && !line.contains("secret"))
        #expect(StoredCredentials(text: line) == stored)
        let damaged = [
            "", "scram-1", String(line.dropLast()), line + ";", "scram-2" + line.dropFirst(7),
            line.replacing("4096", with: "0"), line.replacing("4096", with: "x"),
            line.replacing("SHA256", with: "SHA512"), line.replacing(",", with: ";"),
        ]
        for text in damaged { #expect(StoredCredentials(text: text) == nil, "\(text)") }
    }

    @Test func plainLoginHasThreeParts() {
        func plain(_ text: String) -> PasswordLogin? {
            bytes(text).withView { PasswordLogin(plain: $0) }
        }
        #expect(plain("\0ada\0pass word") == login("ada", "pass word"))
        #expect(plain("ada\0ada\0") == login("ada", ""))
        #expect(plain("bob\0ada\0x") == nil)
        #expect(plain("\0\0x") == nil)
        #expect(plain("\0ada") == nil)
        #expect(plain("\0ada\0x\0") == nil)
        #expect(plain("") == nil)
        #expect(([0, 0xff, 0] as [UInt8]).withView { PasswordLogin(plain: $0) } == nil)
    }

    @Test func base64AgreesWithTheRFC() {
        let examples = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]
        for (count, text) in examples.enumerated() {
            let raw = Array(bytes("foobar").prefix(count))
            #expect(raw.withView { Base64.encode($0) } == bytes(text))
            #expect(bytes(text).withView { Base64.decode($0) } == raw)
        }
        for text in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "Z===", "====", "Zm 9", "Zm-_"] {
            #expect(bytes(text).withView { Base64.decode($0) } == nil, "\(text)")
        }
        let all = (0...255).map { UInt8($0) }
        #expect(all.withView { Base64.encode($0) }.withView { Base64.decode($0) } == all)
    }
}
