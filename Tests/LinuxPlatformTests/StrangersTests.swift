import Bytes
import Seams
import Testing

/// The decisions on clients without a login, as tables.
@Suite struct StrangersTests {
    private static let second: UInt64 = 1_000_000_000

    // MARK: Which connection ends

    /// Enters the addresses in their order with numbers from 1; returns what ended, in order.
    private func ended(
        _ addresses: [String],
        max: Int,
        preferred: Set<String> = []
    ) -> [UInt64] {
        var table = StrangerTable(connectionsMax: max)
        return addresses.enumerated().compactMap { place, address in
            table.enter(UInt64(place + 1), from: address, at: 0) { preferred.contains($0) }
        }
    }

    @Test func oldestConnectionOfTheAddressWithTheMostEnds() {
        #expect(ended(["a", "a", "b"], max: 3) == [])
        #expect(ended(["a", "b", "b", "c"], max: 3) == [2])
        #expect(ended(["a", "b", "b", "b", "b", "b"], max: 4) == [2, 3])
        // Equally many: the one with the oldest connection.
        #expect(ended(["a", "b", "c", "d"], max: 3) == [1])
    }

    @Test func connectionOfPreferredAddressEndsLast() {
        #expect(ended(["a", "a", "b", "c"], max: 3, preferred: ["a"]) == [3])
        #expect(ended(["a", "a", "a", "b"], max: 3, preferred: ["a"]) == [1])
    }

    @Test func tableIsNeverLargerThanItsBound() {
        var table = StrangerTable(connectionsMax: 50)
        for number in UInt64(1)...500 {
            _ = table.enter(number, from: "a\(number % 7)", at: number) { $0 == "a0" }
            if number % 3 == 0 { table.leave(number / 2) }
            #expect(table.count <= 50)
        }
        table.leave(1_000)
        #expect(table.entered(by: 490).allSatisfy { $0 <= 490 })
        #expect(table.entered(by: 500).count == table.count)
    }

    // MARK: Addresses

    @Test func loginWaitsLongerWithEachFiveRefusals() {
        var book = AddressBook()
        var delays: [UInt64] = []
        for _ in 0..<30 {
            delays.append(book.delayNanoseconds("a", at: 7) / 1_000_000)
            book.recordRefusal("a", at: 7)
        }
        let steps: [UInt64] = [0, 100, 200, 400, 800, 1_000]
        #expect(delays == steps.flatMap { Array(repeating: $0, count: 5) })
        #expect(book.delayNanoseconds("b", at: 7) == 0)
        // A right login does not end the wait; time does.
        book.recordLogin("a", "ann", at: 7)
        #expect(book.delayNanoseconds("a", at: 59 * Self.second) == Self.second)
        #expect(book.delayNanoseconds("a", at: 61 * Self.second) == 0)
    }

    @Test func addressIsKnownForAnHourAfterALogin() {
        var book = AddressBook()
        book.recordLogin("a", "ann", at: 1)
        #expect(book.isKnown("a", at: 3_600 * Self.second))
        #expect(!book.isKnown("a", at: 1 + 3_600 * Self.second))
        #expect(book.isKnown("a", "ann", at: 2) && !book.isKnown("a", "bob", at: 2))
        for number in 0..<8 { book.recordLogin("a", "n\(number)", at: 2) }
        #expect(!book.isKnown("a", "ann", at: 2) && book.isKnown("a", "n7", at: 2))
        book.members = ["m"]
        #expect(book.isKnown("m", at: 9_999 * Self.second) && !book.isKnown("m", "ann", at: 1))
    }

    @Test func tablesOfAddressesAreBoundedAndKeepTheNewest() {
        var book = AddressBook()
        book.recordLogin("known", "ann", at: 1)
        for number in UInt64(0)..<20_000 {
            book.recordRefusal("r\(number)", at: number)
            #expect(book.count.refusals <= AddressBook.addressesMax)
        }
        for _ in 0..<5 { book.recordRefusal("r19999", at: 20_000) }
        #expect(book.delayNanoseconds("r19999", at: 20_000) > 0)
        #expect(book.isKnown("known", at: 20_000))
        for number in UInt64(0)..<20_000 { book.recordLogin("l\(number)", "ann", at: number) }
        #expect(book.count.logins <= AddressBook.addressesMax)
        #expect(book.isKnown("l19999", at: 20_000) && !book.isKnown("known", at: 20_000))
    }

    @Test(
        arguments: [
            ("10.0.0.7", "10.0.0.7"), ("::ffff:10.0.0.7", "10.0.0.7"), ("::1", "0:0:0:0::/64"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), ("2001:DB8:1:2::9", "2001:db8:1:2::/64"),
            ("fe80::1%eth0", "fe80:0:0:0::/64"),
        ]
    )
    func networkOfIPv6IsOneAddress(_ host: String, _ key: String) {
        #expect(AddressBook.key(host) == key)
    }

    // MARK: The log

    @Test func refusalsAreLoggedOncePerSecondWithCountOfSuppressed() {
        var log = RefusalLog()
        let lines = (0..<3_000).compactMap {
            log.line("ann", "a", at: UInt64($0) * Self.second / 1_000)
        }
        #expect(lines.count == 3)
        #expect(lines[0] == "refused a login as \"ann\" from a")
        #expect(
            lines[1] == "refused a login as \"ann\" from a, and 999 more since the last such line"
        )
    }

    @Test func nameInTheLogIsOneShortLine() {
        var log = RefusalLog()
        let line = log.line("x\n\"\u{1b}[2J" + String(repeating: "y", count: 500), "a", at: 1) ?? ""
        #expect(!line.contains { $0.isNewline } && !line.contains("\u{1b}") && line.count < 150)
    }

    // MARK: Together

    private func enter(
        _ strangers: LoginWatch,
        _ host: String,
        at now: UInt64 = 1,
        _ ended: Guarded<[String]>,
        _ name: String
    ) -> LoginWatch.Number {
        strangers.enter(from: host, at: now) { ended.withLock { $0.append(name) } }
    }

    @Test func unauthenticatedClientsGuestsAndLoginsHaveSeparateBounds() {
        let strangers = LoginWatch()
        let ended = Guarded<[String]>([])
        for number in 0..<2_000 {
            let guest = enter(strangers, "g", ended, "guest \(number)")
            strangers.recordGuest(guest, from: "g", at: 1)
            let user = enter(strangers, "u", ended, "user")
            strangers.recordLogin(user, of: "ann", from: "u", at: 1)
        }
        #expect(strangers.usage.guestCount == LoginWatch.guestsMax)
        #expect(ended.withLock { $0 } == (0..<976).map { "guest \($0)" })
        // Those of an address with logins come last.
        ended.withLock { $0 = [] }
        for number in 0..<1_000 { _ = enter(strangers, "u", ended, "u \(number)") }
        for number in 0..<100 { _ = enter(strangers, "10.0.0.\(number)", ended, "\(number)") }
        #expect(strangers.usage.strangerCount == LoginWatch.connectionsMax)
        #expect(ended.withLock { $0 } == (0..<76).map { "\($0)" })
    }

    @Test func connectionWithoutALoginEndsAfterFifteenSeconds() {
        let strangers = LoginWatch()
        let ended = Guarded<[String]>([])
        _ = enter(strangers, "a", at: Self.second, ended, "stranger")
        let guest = enter(strangers, "a", at: Self.second, ended, "guest")
        strangers.recordGuest(guest, from: "a", at: 2 * Self.second)
        let gone = enter(strangers, "a", at: Self.second, ended, "gone")
        strangers.leave(gone)
        strangers.endOverdue(at: 16 * Self.second - 1)
        #expect(ended.withLock { $0 } == [])
        strangers.endOverdue(at: 16 * Self.second)
        #expect(ended.withLock { $0 } == ["stranger"])
        #expect(strangers.usage.strangerCount == 0 && strangers.usage.guestCount == 1)
        strangers.endOverdue(at: 99 * Self.second)
        #expect(ended.withLock { $0 } == ["stranger"])
    }

    @Test func inputOfUnauthenticatedClientIsBounded() {
        let sizes = ReceiveSizes(
            readBytes: 256 << 10,
            ownBytes: 64 << 10,
            heldBytesMax: 30 << 20,
            stalledNanoseconds: 1
        )
        let memory = ConnectionMemory(receive: sizes.memory(64 << 20, reactors: 1), keptBytesMax: 1)
        var allowance = ReceiveAllowance(sizes, memory: memory, isStranger: true)
        let most = LoginWatch.inputBytesMax + 24
        #expect(allowance.step(count: 0, capacity: 0) == .readShared(most))
        var held = 0
        for _ in 0..<10 {
            switch allowance.step(count: held, capacity: held) {
            case .readShared(let bytes), .readOwn(_, let bytes): held += bytes
            case .claim: Issue.record("a stranger claims shared memory")
            case .refuse: break
            }
        }
        #expect(held == most)
        allowance.setStranger(false)
        #expect(allowance.step(count: 0, capacity: 0) == .readShared(256 << 10))
    }
}
