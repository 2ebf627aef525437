import HTTPFrontend
import Testing
import Vocabulary

/// The names under which a node serves requests without a proof, and the senders that it knows before it
/// has a cluster.
@Suite struct OwnNamesTests {
    private static let names = OwnNames(["db1.example.com", "Divan-2"])

    @Test(arguments: [
        "127.0.0.1", "127.0.0.1:8091", "10.0.0.7:80", "[::1]", "[::1]:8091", "[fe80::1:2]:8091",
        "localhost", "LOCALHOST:8091", "localhost.", "db1.example.com", "DB1.Example.COM:8091",
        "db1.example.com.:8091", "divan-2:1",
    ])
    func addressesAndKnownNamesAreAccepted(_ header: String) {
        #expect(Self.names.contains(header))
    }

    @Test(arguments: [
        "evil.example", "evil.example:8091", "db1.example.com.evil.example", "evil-db1.example.com",
        "127.0.0.1.evil.example", "127.0.0.1:8091.evil.example", "[::1].evil.example",
        "[localhost]",
        "::1", "", ":8091", "localhost:8091:1", "user@localhost", "localhost/x", "local host",
        "[::1", "127.1", "0x7f.0.0.1", "2130706433", "example.com", "db1",
    ])
    func otherHostsAreRefused(_ header: String) {
        #expect(!Self.names.contains(header))
    }

    @Test func missingHostIsRefused() { #expect(!Self.names.contains(nil)) }

    /// Open, read, discovery, credentials, without proof, provisioned; and whether the name counts.
    private static let rule: [([Bool], Bool)] = [
        // Files of the console, and its login.
        ([true, true, false, false, true, false], false),
        ([true, false, false, false, true, true], false),
        // `/pools`: without a login under every name.
        ([false, true, true, false, true, false], false),
        ([false, true, true, false, true, true], false),
        ([false, true, true, true, true, true], true),
        ([false, true, true, true, false, true], false),
        // Changes of a node without a cluster, also with the token.
        ([false, false, false, false, true, false], true),
        ([false, false, false, true, false, false], true),
        ([false, false, true, false, true, false], true),
        // Data: without a login by a known name only; with one under every name.
        ([false, true, false, false, true, true], true),
        ([false, true, false, false, true, false], true),
        ([false, true, false, true, true, true], true),
        ([false, true, false, true, false, true], false),
        ([false, true, false, true, false, false], false),
        // Changes of a cluster: with a login under every name.
        ([false, false, false, true, false, true], false),
        ([false, false, false, false, true, true], true),
    ]

    @Test(arguments: rule)
    func hostIsCheckedForChangesOfNewNodesAndForDataWithoutLogin(_ row: [Bool], _ isNeeded: Bool) {
        var asked = OwnNames.Asked()
        asked.isOpen = row[0]
        asked.isRead = row[1]
        asked.isDiscovery = row[2]
        asked.hasCredentials = row[3]
        asked.isWithoutProof = row[4]
        #expect(OwnNames.areNeeded(by: asked, isProvisioned: row[5]) == isNeeded)
    }

    private static let senders: [(ClientOrigin, Bool, Bool, Identity?)] = [
        (.loopback, false, false, .unprovisioned(hasToken: false)),
        (.loopback, false, true, .unprovisioned(hasToken: false)),
        (.loopback, true, true, .unprovisioned(hasToken: true)),
        (.network, true, true, .unprovisioned(hasToken: true)),
        (.network, false, false, .anonymous(from: .network)),
        (.network, false, true, nil),
    ]

    @Test(arguments: senders)
    func newNodeAdmitsLoopbackClientsAndItsToken(
        _ origin: ClientOrigin,
        _ hasToken: Bool,
        _ hasCredentials: Bool,
        _ expected: Identity?
    ) {
        let identity = Identity(
            firstComerFrom: origin,
            hasToken: hasToken,
            hasCredentials: hasCredentials
        )
        #expect(identity == expected)
    }
}
