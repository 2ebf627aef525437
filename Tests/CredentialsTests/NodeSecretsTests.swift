import Credentials
import Testing
import Vocabulary

/// Keys of nodes: what they seal, and what proves a token.
@Suite struct NodeSecretsTests {
    private let one = NodeSecrets(seed: [UInt8](repeating: 1, count: 32))
    private let other = NodeSecrets(seed: [UInt8](repeating: 2, count: 32))
    private let once = [UInt8](repeating: 3, count: 32)

    /// RFC 8032, section 7.1, test 1.
    @Test func identityKeyIsDerivedFromSeedAsInRFC8032() {
        let seed: [UInt8] = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec,
            0x2c,
            0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c,
            0xae,
            0x7f, 0x60,
        ]
        let keys = NodeSecrets(seed: seed).publicKeys
        #expect(Array(keys.identity.prefix(4)) == [0xd7, 0x5a, 0x98, 0x01])
        #expect(keys.sealing != keys.identity)
        #expect(keys.fingerprint == NodeKeys.fingerprint(of: keys.identity))
        #expect(keys.fingerprint.count == 64)
    }

    @Test func sealedContentOpensOnlyWithItsKeyAndUnchanged() throws {
        let content = [UInt8](repeating: 9, count: 32)
        let sealed = try #require(
            NodeSecrets.seal(content, to: one.publicKeys.sealing, seed: once)
        )
        #expect(one.open(sealed) == content)
        #expect(other.open(sealed) == nil)
        for place in sealed.indices {
            var changed = sealed
            changed[place] ^= 1
            #expect(one.open(changed) == nil, "\(place)")
        }
        for count in 0..<sealed.count { #expect(one.open(Array(sealed.prefix(count))) == nil) }
    }

    @Test func sealToInvalidKeyFails() {
        #expect(NodeSecrets.seal([1], to: [], seed: once) == nil)
        // A point of small order: the shared secret is no secret.
        #expect(NodeSecrets.seal([1], to: [UInt8](repeating: 0, count: 32), seed: once) == nil)
    }

    @Test func proofsDifferByTokenSideAndKeys() {
        let (a, b) = (one.publicKeys.identity, other.publicKeys.identity)
        let proofs = [
            TokenProof.make("token", by: .adding, adding: a, waiting: b),
            TokenProof.make("token", by: .waiting, adding: a, waiting: b),
            TokenProof.make("token", by: .adding, adding: b, waiting: a),
            TokenProof.make("token", by: .adding, adding: a, waiting: a),
            TokenProof.make("tokem", by: .adding, adding: a, waiting: b),
        ]
        #expect(Set(proofs).count == proofs.count)
        #expect(proofs.allSatisfy { $0.count == 32 })
    }

    @Test func descriptionsDoNotContainTheSeed() {
        let secrets = NodeSecrets(seed: [UInt8](repeating: 193, count: 32))
        var text = "\(secrets) \(String(reflecting: secrets))"
        dump(secrets, to: &text)
        #expect(!text.contains("193"), "\(text)")
    }
}
