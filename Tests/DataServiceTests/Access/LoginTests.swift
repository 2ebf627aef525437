import Credentials
import DataService
import TestWorld
import Testing
import Vocabulary

/// What a user name stands for, and which bucket a login selects.
@Suite struct LoginTests {
    let world = TestWorld()

    init() {
        // Every mechanism, also the one that a new cluster does not offer.
        var rules = world.service.passwords.rules
        rules.offersSHA1 = true
        world.service.passwords.use(rules)
    }

    @Test func mechanismThatIsNotOfferedIsNeitherListedNorAccepted() throws {
        world.admitAdministrator()
        func listed() -> [UInt8]? { Client(world).ask(frame(0x20)).first?.value }
        #expect(listed() == Array("SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN".utf8))
        var rules = world.service.passwords.rules
        rules.offersSHA1 = false
        world.service.passwords.use(rules)
        #expect(listed() == Array("SCRAM-SHA512 SCRAM-SHA256 PLAIN".utf8))
        #expect(Client(world).logIn(.sha1, "Administrator", "secret") == 0x20)
        #expect(Client(world).logIn(.sha256, "Administrator", "secret") == 0)
    }

    private func statuses(_ requests: [UInt8]..., by client: Client) -> [UInt16] {
        requests.flatMap { client.ask($0) }.map(\.status)
    }

    @Test(arguments: SCRAMMechanism.allCases)
    func localUserLogsInByEveryMechanism(_ mechanism: SCRAMMechanism) throws {
        try world.open("demo")
        world.admit("user", RoleGrant(.dataReader, bucket: "demo"))
        let client = Client(world)
        #expect(client.logIn(mechanism, "user", "wrong") == 0x20)
        #expect(client.logIn(mechanism, "unknown", "secret") == 0x20)
        #expect(client.logIn(mechanism, "user", "secret") == 0)
        #expect(statuses(Ask.get("k"), Ask.select("demo"), Ask.get("k"), by: client) == [8, 0, 1])
    }

    @Test(arguments: SCRAMMechanism.allCases)
    func nameOfBucketWithItsPasswordSelectsBucket(_ mechanism: SCRAMMechanism) throws {
        try world.open("demo", password: "its own")
        try world.open("other", password: "another")
        let client = Client(world)
        #expect(client.logIn(mechanism, "demo", "another") == 0x20)
        #expect(client.logIn(mechanism, "demo", "") == 0x20)
        #expect(client.logIn(mechanism, "demo", "its own") == 0)
        #expect(statuses(Ask.set("k", "v"), Ask.get("k"), by: client) == [0, 0])
        #expect(statuses(Ask.select("other"), Ask.get("k"), by: client) == [0x24, 0])
        let plain = Client(world)
        #expect(statuses(Ask.plain("demo", ""), Ask.get("k"), by: plain) == [0x20, 0x24])
        #expect(statuses(Ask.plain("demo", "its own"), Ask.get("k"), by: plain) == [0, 0])
    }

    @Test(arguments: SCRAMMechanism.allCases)
    func nameOfPasswordlessBucketSelectsIt(_ mechanism: SCRAMMechanism) throws {
        try world.service.open(TestWorld.settings("guests"))
        for _ in 0..<2 {
            let client = Client(world)
            #expect(client.logIn(mechanism, "guests", "any") == 0x20)
            #expect(client.logIn(mechanism, "guests", "") == 0)
            #expect(statuses(Ask.set("k", "v"), by: client) == [0])
        }
        #expect(statuses(Ask.plain("guests", "any"), by: Client(world)) == [0x20])
        #expect(statuses(Ask.plain("guests", ""), by: Client(world)) == [0])
    }

    @Test func bucketWithoutPasswordHasNoLogin() throws {
        try world.open("closed")
        #expect(statuses(Ask.plain("closed", ""), by: Client(world)) == [0x20])
        #expect(Client(world).logIn(.sha512, "closed", "") == 0x20)
    }

    @Test func localUserTakesPrecedenceOverBucketOfItsName() throws {
        try world.open("demo", password: "its own")
        try world.service.open(TestWorld.settings("guests"))
        world.admit("demo", RoleGrant(.dataReader, bucket: "demo"))
        world.admit("guests", RoleGrant(.dataReader, bucket: "demo"))
        #expect(statuses(Ask.plain("demo", "its own"), by: Client(world)) == [0x20])
        #expect(Client(world).logIn(.sha256, "demo", "its own") == 0x20)
        #expect(statuses(Ask.plain("guests", ""), by: Client(world)) == [0x20])
        #expect(Client(world).logIn(.sha1, "guests", "") == 0x20)
        let client = Client(world)
        #expect(statuses(Ask.plain("demo", "secret"), by: client) == [0])
        #expect(statuses(Ask.get("k"), Ask.set("k", "v"), by: client) == [1, 0x24])
        // It may not use the bucket of its name, so none is selected.
        let other = Client(world)
        #expect(statuses(Ask.plain("guests", "secret"), Ask.get("k"), by: other) == [0, 8])
    }

    @Test func administratorNamedLikeBucketSelectsIt() throws {
        try world.open("Administrator")
        world.admitAdministrator()
        let client = Client(world)
        #expect(statuses(Ask.plain("Administrator", "secret"), by: client) == [0])
        #expect(statuses(Ask.set("k", "v"), by: client) == [0])
    }

    @Test func bucketOfTheUsersNameIsSelectedOnceItIsOpen() throws {
        world.admitAdministrator()
        world.service.publish(
            .init(epoch: 1, revision: 1, json: [0x7b, 0x7d]),
            ofBucket: "Administrator"
        )
        let client = Client(world)
        #expect(statuses(Ask.plain("Administrator", "secret"), by: client) == [0])
        // The cluster has the bucket, so the client retries.
        #expect(statuses(Ask.get("k"), by: client) == [7])
        try world.open("Administrator")
        #expect(statuses(Ask.get("k"), by: client) == [1])
    }

    @Test func newLoginKeepsNoSelectedBucket() throws {
        try world.open("demo")
        world.admitAdministrator()
        world.admit("user", RoleGrant(.dataReader, bucket: "demo"))
        let client = world.client(as: "Administrator", in: "demo")
        #expect(statuses(Ask.plain("user", "secret"), Ask.get("k"), by: client) == [0, 8])
        #expect(statuses(Ask.select("demo"), Ask.set("k", "v"), by: client) == [0, 0x24])
    }

    @Test func refusedLoginKeepsSession() throws {
        try world.open("demo")
        world.admitAdministrator()
        let client = world.client(as: "Administrator", in: "demo")
        #expect(statuses(Ask.plain("Administrator", "wrong"), by: client) == [0x20])
        #expect(statuses(Ask.get("k"), by: client) == [1])
    }

    @Test func recreatedBucketRefusesConnectionsWithThePasswordOfTheDeletedOne() throws {
        try world.open("demo", password: "its own")
        let client = Client(world)
        #expect(statuses(Ask.plain("demo", "its own"), Ask.get("k"), by: client) == [0, 1])
        try world.service.delete("demo")
        var settings = TestWorld.settings("demo")
        settings.uuid = "fedcba9876543210fedcba9876543210"
        settings.passwordless = .none
        settings.password = Array(TestWorld.keys(of: "new").text.utf8)
        try world.service.open(settings)
        #expect(statuses(Ask.get("k"), Ask.select("demo"), by: client) == [8, 0x24])
        #expect(statuses(Ask.plain("demo", "new"), Ask.get("k"), by: client) == [0, 1])
    }

    @Test func passwordOfBucketEndsSessionsOnlyIfItIsRemoved() throws {
        try world.open("demo", password: "its own")
        let client = Client(world)
        #expect(statuses(Ask.plain("demo", "its own"), Ask.get("k"), by: client) == [0, 1])
        var settings = TestWorld.settings("demo")
        settings.passwordless = .none
        settings.password = Array(TestWorld.keys(of: "new").text.utf8)
        world.service.change(settings)
        #expect(statuses(Ask.get("k"), by: client) == [1])
        settings.password = []
        world.service.change(settings)
        #expect(statuses(Ask.get("k"), by: client) == [0x24])
    }

    /// The user is deleted after the password was checked on another lane.
    @Test func userDeletedDuringLoginIsRefused() throws {
        try world.open("demo")
        world.admit("user", RoleGrant(.dataReader, bucket: "demo"))
        let client = Client(world)
        client.send(Ask.plain("user", "secret"))
        world.settle()
        world.remove(user: "user")
        client.settle()
        #expect(client.replies().map(\.status) == [0x20])
    }
}
