import DataService
import TestWorld
import Testing
import Vocabulary
import Wire

/// Changed and deleted users on connections that are logged in.
@Suite struct AccessChangeTests {
    let world = TestWorld()
    private let all = RoleGrant(.bucketFullAccess, bucket: "demo")

    init() throws {
        try world.open("demo")
        try world.open("other")
        world.admit("user", all)
    }

    private func statuses(_ requests: [UInt8]..., by client: Client) -> [UInt16] {
        requests.flatMap { client.ask($0) }.map(\.status)
    }

    @Test func changedRoleIsEffectiveAtNextRequest() {
        let client = world.client(as: "user", in: "demo")
        #expect(statuses(Ask.set("k", "v"), Ask.get("k"), by: client) == [0, 0])
        world.admit("user", RoleGrant(.dataReader, bucket: "demo"))
        #expect(statuses(Ask.set("k", "w"), Ask.get("k"), by: client) == [0x24, 0])
        world.admit("user", RoleGrant(.dataReader, bucket: "other"))
        #expect(statuses(Ask.get("k"), Ask.select("demo"), by: client) == [0x24, 0x24])
        #expect(statuses(frame(.getClusterConfig), by: client) == [0x24])
        #expect(statuses(Ask.select("other"), Ask.get("k"), by: client) == [0, 1])
        world.admit("user", all)
        #expect(statuses(Ask.get("k"), Ask.select("demo"), by: client) == [0x24, 0])
        #expect(statuses(Ask.set("k", "w"), by: client) == [0])
    }

    @Test func deletedUserIsRefusedAtNextRequestAndLogin() {
        let client = world.client(as: "user", in: "demo")
        world.remove(user: "user")
        let requests = [Ask.get("k"), Ask.select("demo"), frame(.getClusterConfig)]
        #expect(requests.allSatisfy { statuses($0, by: client) == [0x24] })
        #expect(statuses(frame(.noop), by: client) == [0])
        #expect(statuses(Ask.plain("user", "secret"), by: client) == [0x20])
    }

    @Test func recreatedUserHasToLogInAgain() {
        let client = world.client(as: "user", in: "demo")
        world.remove(user: "user")
        world.admit("user", salt: 8, all)
        #expect(statuses(Ask.get("k"), Ask.select("demo"), by: client) == [0x24, 0x24])
        #expect(statuses(Ask.plain("user", "secret"), Ask.select("demo"), by: client) == [0, 0])
        #expect(statuses(Ask.get("k"), by: client) == [1])
    }

    /// A node that was removed from its cluster and added again gets the users with their keys.
    @Test func userRestoredWithSameKeysKeepsItsSession() {
        let client = world.client(as: "user", in: "demo")
        let keys = TestWorld.keys(of: "secret")
        world.remove(user: "user")
        #expect(statuses(Ask.get("k"), by: client) == [0x24])
        world.service.setCredentials(user: "user", stored: keys, grants: Grants([all]))
        #expect(statuses(Ask.get("k"), by: client) == [1])
    }

    @Test func changedPasswordEndsNoSession() {
        let client = world.client(as: "user", in: "demo")
        world.admit("user", password: "new", all)
        #expect(statuses(Ask.set("k", "v"), by: client) == [0])
        #expect(statuses(Ask.plain("user", "secret"), by: Client(world)) == [0x20])
        #expect(statuses(Ask.plain("user", "new"), by: Client(world)) == [0])
    }

    @Test func renamedAdministratorIsRefusedAtNextRequest() {
        world.admitAdministrator()
        let client = world.client(as: "Administrator", in: "demo")
        #expect(statuses(Ask.set("k", "v"), by: client) == [0])
        world.remove(user: "Administrator")
        #expect(statuses(Ask.get("k"), by: client) == [0x24])
    }

    @Test func bucketThatNeedsPasswordNowRefusesItsGuests() throws {
        var settings = TestWorld.settings("guests")
        try world.service.open(settings)
        let client = world.client(of: "guests")
        #expect(statuses(Ask.set("k", "v"), by: client) == [0])
        settings.passwordless = .none
        world.service.change(settings)
        #expect(statuses(Ask.get("k"), by: client) == [0x24])
        settings.passwordless = .loopback
        world.service.change(settings)
        #expect(statuses(Ask.get("k"), by: client) == [0])
    }

    // MARK: Streams

    /// The client answers no further changes; the connection stays open for its other requests.
    @Test func revocationEndsStreamsWithReason() {
        let writer = world.client(as: "user", in: "demo")
        world.admit("reader", RoleGrant(.dataDCPReader, bucket: "demo"))
        let reader = world.client(as: "reader", in: "demo")
        #expect(statuses(Ask.openProducer, by: reader) == [0])
        #expect(reader.ask(Ask.stream(of: "k")).first?.status == 0)
        #expect(writer.ask(Ask.set("k", "before")).map(\.status) == [0])
        reader.settle()
        #expect(reader.messages().map(\.opcode) == [0x56, 0x57])
        world.admit("reader", RoleGrant(.dataReader, bucket: "demo"))
        #expect(writer.ask(Ask.set("k", "after")).map(\.status) == [0])
        reader.settle()
        let messages = reader.messages()
        #expect(messages.map(\.opcode) == [0x55])
        #expect(messages.first?.extras == big(UInt32(8)) && messages.first?.opaque == 77)
        #expect(statuses(Ask.stream(of: "k"), by: reader) == [0x24])
        #expect(statuses(Ask.get("k"), by: reader) == [0])
        #expect(!reader.isClosed)
    }

    @Test func idleStreamEndsWithinASecond() {
        world.admit("reader", RoleGrant(.dataDCPReader, bucket: "demo"))
        let reader = world.client(as: "reader", in: "demo")
        #expect(statuses(Ask.openProducer, by: reader) == [0])
        #expect(reader.ask(Ask.stream(of: "k")).first?.status == 0)
        world.remove(user: "reader")
        world.pass(milliseconds: 1_100)
        reader.settle()
        #expect(reader.messages().map(\.opcode) == [0x55])
    }

    @Test func revocationClosesTap() {
        world.admit("reader", RoleGrant(.dataDCPReader, bucket: "demo"))
        let reader = world.client(as: "reader", in: "demo")
        reader.send(frame(.tapConnect, extras: big(UInt32(0))))
        reader.settle()
        _ = reader.messages()
        #expect(!reader.isClosed)
        world.admit("reader", RoleGrant(.dataReader, bucket: "demo"))
        world.pass(milliseconds: 1_100)
        reader.settle()
        #expect(reader.isClosed)
    }
}
