import Bytes
import Credentials
import DataService
import Seams
import TestWorld
import Testing
import Vocabulary

/// What a client may use before its login.
@Suite struct StrangerTests {
    let world = TestWorld()

    private var strangers: LoginWatch { world.service.environment.network.strangers }

    private func status(_ client: Client, _ request: [UInt8]) -> UInt16? {
        client.ask(request).first?.status
    }

    @Test(arguments: ["PLAIN", "SCRAM-SHA512"])
    func fifthRefusedLoginClosesConnectionAfterItsAnswer(_ mechanism: String) {
        world.admitAdministrator()
        let client = Client(world, host: "127.0.0.2")
        func guess(_ number: Int) -> UInt16? {
            mechanism == "PLAIN"
                ? status(client, Ask.plain("Administrator", "guess \(number)"))
                : client.logIn(.sha512, "Administrator", "guess \(number)")
        }
        for number in 1...5 {
            #expect(!client.isClosed)
            #expect(guess(number) == 0x20)
        }
        #expect(client.isClosed)
        #expect(strangers.usage.refusedCount == 5)
        #expect(strangers.usage.strangerCount == 0)
        let lines = world.trace.lines(atLeast: .warning).filter { $0.hasPrefix("login: ") }
        #expect(lines == ["login: refused a login as \"Administrator\" from 127.0.0.2"])
    }

    @Test func loginFromAddressWithFiveRefusalsIsDelayedUnlessKnown() {
        world.admitAdministrator()
        #expect(status(Client(world, host: "127.0.0.2"), Ask.plain("Administrator", "secret")) == 0)
        let guesser = Client(world, host: "127.0.0.2")
        for number in 1...5 {
            #expect(status(guesser, Ask.plain("Administrator", "\(number)")) == 0x20)
        }
        // A right password that was checked before, and another address, wait for nothing.
        #expect(status(Client(world, host: "127.0.0.2"), Ask.plain("Administrator", "secret")) == 0)
        #expect(Client(world, host: "127.0.0.3").logIn(.sha256, "Administrator", "secret") == 0)
        for request in [Ask.plain("Administrator", "other"), Ask.scram("Administrator")] {
            let later = Client(world, host: "127.0.0.2")
            #expect(status(later, request) == nil)
            world.pass(milliseconds: 99)
            #expect(status(later, []) == nil)
            world.pass(milliseconds: 1)
            #expect([0x20, 0x21].contains(status(later, []) ?? 0))
        }
    }

    @Test func connectionsOfUnauthenticatedClientsAndGuestsAreBounded() throws {
        try world.service.open(TestWorld.settings("guests"))
        world.admitAdministrator()
        let strangers = (0..<1_030).map { _ in Client(world, host: "127.0.0.2") }
        #expect(strangers.map(\.isEnded) == (0..<1_030).map { $0 < 6 })
        // A login does not count, and those of its address come last.
        let own = Client(world, host: "127.0.0.3")
        #expect(strangers[6].isEnded)
        #expect(own.logIn(.sha256, "Administrator", "secret") == 0)
        for _ in 0..<10 { _ = Client(world, host: "127.0.0.3") }
        #expect(strangers[15].isEnded && !strangers[16].isEnded)
        var guests: [Client] = []
        for _ in 0..<1_030 {
            let guest = Client(world, host: "127.0.0.4")
            #expect(status(guest, Ask.plain("guests", "")) == 0)
            guests.append(guest)
        }
        #expect(guests.map(\.isEnded) == (0..<1_030).map { $0 < 6 })
        #expect(status(own, Ask.select("guests")) == 0)
        #expect(!own.isEnded)
    }

    @Test func memcachedListenerIsNotCounted() {
        let clients = (0..<1_100).map { _ in
            Client(world, isMemcachedListener: true, host: "127.0.0.1")
        }
        #expect(clients.allSatisfy { !$0.isEnded })
        #expect(strangers.usage.strangerCount == 0)
    }

    @Test func connectionWithoutALoginEndsAfterFifteenSeconds() throws {
        try world.service.open(TestWorld.settings("guests"))
        world.admitAdministrator()
        world.service.startHousekeeping()
        let stranger = Client(world, host: "127.0.0.2")
        let user = Client(world)
        #expect(user.logIn(.sha256, "Administrator", "secret") == 0)
        let guest = world.client(of: "guests")
        world.pass(milliseconds: 14_000)
        #expect(!stranger.isEnded)
        world.pass(milliseconds: 2_000)
        #expect(stranger.isEnded && !user.isEnded && !guest.isEnded)
        _ = world.stop()
    }

    @Test func frameOfUnauthenticatedClientIsBounded() {
        let client = Client(world)
        func login(_ count: Int) -> [UInt8] {
            let value = [UInt8](repeating: 97, count: count - 24 - 5)
            return frame(0x21, key: Array("PLAIN".utf8), value: value)
        }
        #expect(status(client, login(LoginWatch.inputBytesMax)) == 4)
        #expect(!client.isClosed)
        #expect(status(client, login(LoginWatch.inputBytesMax + 1)) == 4)
        #expect(client.isClosed)
    }

    @Test func passwordChecksNeedOnlyTheirOwnLane() {
        world.admitAdministrator()
        for lane in ["non-io", "aux-io", "reader", "writer", "durability"] {
            world.lanes.hold(lane)
        }
        let client = Client(world, host: "127.0.0.2")
        #expect(status(client, Ask.plain("Administrator", "guess")) == 0x20)
        #expect(status(client, Ask.plain("Administrator", "secret")) == 0)
        // While checks wait, a login by SCRAM and a document do not.
        world.lanes.hold("passwords")
        let waiting = (0..<100).map { number in
            let waiting = Client(world, host: "127.0.0.5")
            waiting.send(Ask.plain("Administrator", "guess \(number)"))
            waiting.send(Ask.get("k"))
            return waiting
        }
        #expect(Client(world).logIn(.sha256, "Administrator", "secret") == 0)
        #expect(waiting.allSatisfy { $0.isPaused && $0.received.isEmpty })
        world.lanes.release("passwords")
        for each in waiting { each.settle() }
        #expect(waiting.allSatisfy { $0.replies().map(\.status) == [0x20, 0x24] })
    }
}
