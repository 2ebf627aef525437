import Bytes
import Credentials
import DataService
import TestWorld
import Testing
import Vocabulary

/// Clients without a password, by the address from which they connect.
@Suite struct NetworkGuestTests {
    private let world = TestWorld()

    private static let foreign = ["10.1.2.3", "192.0.2.9", "::ffff:10.1.2.3", "2001:db8::7"]
    private static let local = ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"]

    private func open(_ name: String, _ access: PasswordlessAccess) throws {
        var settings = TestWorld.settings(name)
        settings.passwordless = access
        try world.service.open(settings)
    }

    private func statuses(_ requests: [UInt8]..., by client: Client) -> [UInt16] {
        requests.map { client.ask($0).first?.status ?? 0xffff }
    }

    @Test(arguments: foreign)
    func bucketOfLoopbackRefusesGuestsFromTheNetwork(_ host: String) throws {
        try open("guests", .loopback)
        try open("default", .loopback)
        #expect(statuses(Ask.plain("guests", ""), by: Client(world, host: host)) == [0x20])
        for mechanism in [SCRAMMechanism.sha1, .sha256, .sha512] {
            #expect(Client(world, host: host).logIn(mechanism, "guests", "") == 0x20)
        }
        #expect(
            statuses(Ask.get("k"), Ask.set("k", "v"), by: Client(world, host: host)) == [
                0x24, 0x24,
            ]
        )
        // A user of another bucket is no guest.
        world.admit("ann", RoleGrant(.dataReader, bucket: "default"))
        let user = Client(world, host: host)
        #expect(statuses(Ask.plain("ann", "secret"), Ask.select("guests"), by: user) == [0, 0x24])
    }

    @Test(arguments: local)
    func bucketOfLoopbackServesGuestsFromLoopbackAsBefore(_ host: String) throws {
        try open("guests", .loopback)
        try open("default", .loopback)
        let client = Client(world, host: host)
        #expect(statuses(Ask.plain("guests", ""), Ask.set("k", "v"), by: client) == [0, 0])
        #expect(statuses(Ask.openProducer, by: client) == [0])
        #expect(Client(world, host: host).logIn(.sha256, "guests", "") == 0)
        #expect(statuses(Ask.set("k", "v"), by: Client(world, host: host)) == [0])
    }

    @Test(arguments: foreign)
    func bucketOfTheNetworkLetsGuestsReadAndWriteDocumentsOnly(_ host: String) throws {
        try open("guests", .network)
        let client = Client(world, host: host)
        #expect(statuses(Ask.plain("guests", ""), Ask.set("k", "v"), by: client) == [0, 0])
        #expect(statuses(Ask.get("k"), by: client) == [0])
        // Streams, statistics and flush need a login.
        let tap = frame(0x40, extras: big(UInt32(0)))
        let more = statuses(Ask.openProducer, frame(0x10), frame(0x08), tap, by: client)
        #expect(more == [0x24, 0x24, 0x24, 0x24])
        #expect(Client(world, host: host).logIn(.sha512, "guests", "") == 0)
    }

    @Test func changeOfTheSettingAffectsOpenConnections() throws {
        try open("guests", .network)
        let client = Client(world, host: "10.1.2.3")
        #expect(statuses(Ask.plain("guests", ""), Ask.set("k", "v"), by: client) == [0, 0])
        var settings = TestWorld.settings("guests")
        settings.passwordless = .loopback
        world.service.change(settings)
        #expect(statuses(Ask.get("k"), by: client) == [0x24])
        settings.passwordless = .network
        world.service.change(settings)
        #expect(statuses(Ask.get("k"), by: client) == [0])
    }
}
