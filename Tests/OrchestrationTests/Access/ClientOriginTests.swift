import Testing
import Vocabulary

/// From where a client connects, and what a bucket without a password makes of it.
@Suite struct ClientOriginTests {
    @Test(arguments: [
        "127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::ffff:127.3.2.1",
    ])
    func loopbackAddressesAreRecognized(_ peer: String) {
        #expect(ClientOrigin(peer: peer) == .loopback)
    }

    @Test(arguments: [
        "10.0.0.1", "128.0.0.1", "12.7.0.0", "0.0.0.0", "::", "::2", "fe80::1", "::ffff:10.0.0.1",
        "::127.0.0.1", "::ffff:0:127.0.0.1", "2001:db8::127.0.0.1", "127.0.0.1.example.com",
        "127.example.com", "127.0.0", "127.0.0.0001", "127.0.0.", "localhost", "", "127",
    ])
    func allOtherPeersAreOfTheNetwork(_ peer: String) {
        #expect(ClientOrigin(peer: peer) == .network)
    }

    @Test(arguments: [
        (PasswordlessAccess.none, ClientOrigin.loopback, false), (.none, .network, false),
        (.loopback, .loopback, true), (.loopback, .network, false),
        (.network, .loopback, true), (.network, .network, true),
    ])
    func bucketAdmitsTheOriginsOfItsSetting(
        _ access: PasswordlessAccess,
        _ origin: ClientOrigin,
        _ isAdmitted: Bool
    ) {
        #expect(access.admits(origin) == isAdmitted)
    }
}
