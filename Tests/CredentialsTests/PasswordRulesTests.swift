import Bytes
import Credentials
import Testing

/// What does not depend on the node, and what does not show whether a user exists.
@Suite struct PasswordRulesTests {
    private func challenge(
        _ rules: PasswordRules,
        _ mechanism: SCRAMMechanism = .sha512,
        user: String = "unknown",
        stored: StoredCredentials? = nil
    ) -> (exchange: SCRAMServer, text: String)? {
        let challenge = bytes("n,,n=\(user),r=x").withView { message in
            SCRAMServer.start(
                mechanism,
                clientFirst: message,
                serverNonce: bytes("a server's own nonce"),
                rules: rules,
                lookup: { _ in stored }
            )
        }
        guard case .answer(let exchange, let text) = challenge else { return nil }
        return (exchange, String(decoding: text, as: UTF8.self))
    }

    private func rules(_ clusterSecret: String) -> PasswordRules {
        PasswordRules(decoySecret: bytes(clusterSecret))
    }

    @Test(arguments: SCRAMMechanism.allCases)
    func unknownNameHasTheSameSaltOnEveryNodeOfItsCluster(_ mechanism: SCRAMMechanism) throws {
        let first = try #require(challenge(rules("one cluster"), mechanism)).text
        #expect(challenge(rules("one cluster"), mechanism)?.text == first)
        #expect(challenge(rules("another cluster"), mechanism)?.text != first)
        #expect(challenge(rules("one cluster"), mechanism, user: "other")?.text != first)
    }

    @Test func newPasswordsHaveTheRoundsOfTheRulesAndNoKeysOfSHA1() throws {
        #expect(rules("a cluster").iterations == 60_000)
        #expect(rules("a cluster").mechanisms == [.sha512, .sha256])
        let stored = bytes("secret").withView { password in
            StoredCredentials.derive(password: password, iterations: 4_096) { _ in
                [UInt8](repeating: 1, count: StoredCredentials.saltByteCount)
            }
        }
        #expect(stored.verifier(for: .sha1) == nil)
        #expect(!stored.text.contains("SCRAM-SHA1,"))
        #expect(StoredCredentials(text: stored.text) == stored)
        #expect(StoredCredentials(text: stored.text + ";") == nil)
        // A password without keys of a mechanism is like an unknown name there.
        var offering = rules("a cluster")
        offering.offersSHA1 = true
        #expect(offering.mechanisms == [.sha512, .sha256, .sha1])
        let challenged = challenge(offering, .sha1, stored: stored)
        #expect(challenged?.text == challenge(offering, .sha1)?.text)
    }

    @Test func challengeOfAnUnknownNameTakesTheTimeOfAKnownOne() {
        let stored = PasswordTests.derive("secret")
        let rules = rules("a cluster")
        let clock = ContinuousClock()
        var fastest = [Duration.seconds(1), .seconds(1)]
        // The fastest of many batches: what else the machine does only adds to a batch's time. A derivation
        // more or less is a third of it.
        func areClose() -> Bool {
            max(fastest[0], fastest[1]) < min(fastest[0], fastest[1]) * 1.15
        }
        for batch in 0..<10_000 where batch < 200 || !areClose() {
            for (place, known) in [nil, stored].enumerated() {
                let time = clock.measure {
                    for _ in 0..<20 { _ = challenge(rules, user: "ada", stored: known) }
                }
                fastest[place] = min(fastest[place], time)
            }
        }
        #expect(areClose(), "\(fastest)")
    }
}
