import Orchestration
import Testing
import Vocabulary

/// Authorities that clients trust, and the users that certificates name.
@Suite struct AuthorityTests {
    private func record(_ byte: UInt8, file: String = "") -> AuthorityRecord {
        var record = AuthorityRecord()
        record.certificate = [byte]
        record.file = file
        return record
    }

    private func adding(_ records: AuthorityRecord...) -> ClusterCommand {
        var change = AuthorityChange()
        change.added = records
        return .changeAuthorities(change)
    }

    private func removing(_ id: UInt64) -> ClusterCommand {
        var change = AuthorityChange()
        change.removed = id
        return .changeAuthorities(change)
    }

    @Test func authorityOfTheClusterAndThoseOfOperatorsHaveDifferentIds() {
        var world = ClusterWorld(nodes: 1)
        var secret = SharedSecret()
        secret.revision = 1
        secret.boxes = [.init(node: NodeNumber(1), sealed: [1])]
        secret.authorities = [record(1)]
        world.apply(.renewSecret(secret))
        world.apply(adding(record(2, file: "a"), record(3, file: "b")))
        #expect(world.state.authorities.map(\.id) == [1, 2, 3])
        #expect(world.state.authorities.map(\.isGenerated) == [true, false, false])
        // A renewal keeps the ids of former authorities, and gives the new one another.
        secret.revision = 2
        secret.authorities = [record(4)] + world.state.secret.authorities
        world.apply(.renewSecret(secret))
        #expect(world.state.secret.authorities.map(\.id) == [4, 1])
    }

    @Test func certificateThatIsLoadedAgainKeepsItsId() {
        var world = ClusterWorld(nodes: 1)
        world.apply(adding(record(2, file: "a")))
        world.apply(adding(record(2, file: "b"), record(3, file: "b")))
        #expect(world.state.loadedAuthorities.map(\.id) == [1, 2])
        #expect(world.state.loadedAuthorities.map(\.file) == ["b", "b"])
    }

    @Test func onlyALoadedAuthorityCanBeRemoved() {
        var world = ClusterWorld(nodes: 1)
        world.apply(adding(record(2, file: "a")))
        #expect(world.apply(removing(7)) == .refused(.authorityUnknown))
        world.apply(removing(1))
        #expect(world.state.loadedAuthorities.isEmpty)
        world.apply(adding(record(2, file: "a")))
        #expect(world.state.loadedAuthorities.map(\.id) == [2])
    }

    @Test func authoritiesTogetherAreBounded() {
        var world = ClusterWorld(nodes: 1)
        var large = record(1, file: "a")
        large.certificate = [UInt8](repeating: 1, count: ClusterState.authorityBytesMax)
        world.apply(adding(large))
        let before = world.state.loadedAuthorities
        #expect(world.apply(adding(record(2, file: "b"))) == .refused(.authoritiesTooLarge))
        #expect(world.state.loadedAuthorities == before)
    }

    // MARK: Users

    @Test func firstRuleThatFindsANameDecidesTheUser() {
        let certificate = ClientCertificate(names: [
            .commonName: ["alice"], .email: ["bob@example.com", "carol@example.com"],
            .uri: ["urn:x:dave"],
        ])
        func user(_ rules: (ClientCertificate.Path, String, String)...) -> String? {
            var settings = ClientCertificateSettings()
            settings.rules = rules.map {
                ClientCertificateRule(path: $0.0, prefix: $0.1, delimiter: $0.2)
            }
            return settings.user(of: certificate)
        }
        #expect(user() == nil)
        #expect(user((.commonName, "", "")) == "alice")
        #expect(user((.email, "", "@")) == "bob")
        #expect(user((.email, "carol", "@")) == nil)
        #expect(user((.email, "c", "@")) == "arol")
        #expect(user((.uri, "urn:x:", "")) == "dave")
        #expect(user((.uri, "urn:", ":")) == "x")
        #expect(user((.dnsName, "", ""), (.uri, "urn:x:", ":;")) == "dave")
        #expect(user((.commonName, "bob", ""), (.commonName, "", "c")) == "ali")
    }
}
