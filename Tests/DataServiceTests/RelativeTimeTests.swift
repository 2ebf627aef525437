import Bytes
import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary

/// Relative times of whole seconds last at least as long as requested, and at most a second longer,
/// at every phase of a second and through every command that accepts one.
@Suite struct RelativeTimeTests {
    /// Nanoseconds into a second at which a request may arrive.
    static let phases: [UInt64] = [0, 1, 10_000_000, 500_000_000, 990_000_000, 999_999_999]
    private static let second: UInt64 = 1_000_000_000

    /// A way to set a document's expiry.
    enum Door: CaseIterable {
        case set, add, replace, increment, decrement, touch, getAndTouch, admin

        /// Whether the command needs an existing document.
        var needsDocument: Bool {
            switch self {
            case .replace, .touch, .getAndTouch: true
            case .set, .add, .increment, .decrement, .admin: false
            }
        }
    }

    private let world = TestWorld()

    private func client(maxTTL: UInt32 = 0) throws -> Client {
        var settings = TestWorld.settings("guests")
        settings.maxTTL = maxTTL
        try world.service.open(settings)
        return world.client(of: "guests")
    }

    /// Moves time to `phase` nanoseconds into a second.
    private func enter(_ phase: UInt64) {
        let next = UInt64(world.time.seconds) + 1
        let distance = next * Self.second + phase - world.time.wallNanoseconds()
        world.time.advance(to: world.time.monotonicNanoseconds() + distance)
    }

    /// Sends a document's expiry field by one of the ways.
    private func pass(_ field: UInt32, through door: Door, _ client: Client) -> UInt16? {
        let extras = big(UInt32(0)) + big(field)
        let request: [UInt8]
        switch door {
        case .set: request = Ask.on(0x01, "k", [0x78], extras: extras)
        case .add: request = Ask.on(0x02, "k", [0x78], extras: extras)
        case .replace: request = Ask.on(0x03, "k", [0x78], extras: extras)
        case .increment: request = Ask.counter(0x05, "k", delta: 1, expiry: field)
        case .decrement: request = Ask.counter(0x06, "k", delta: 1, expiry: field)
        case .touch: request = Ask.on(0x1c, "k", extras: big(field))
        case .getAndTouch: request = Ask.on(0x1d, "k", extras: big(field))
        case .admin: return passAsAdmin(field)
        }
        return client.ask(request).first?.status
    }

    private func passAsAdmin(_ field: UInt32) -> UInt16? {
        let written = Guarded<Bool>(false)
        let action = DocumentAction.write(
            value: [0x78],
            flags: 0,
            expiry: field,
            preservesExpiry: false
        )
        world.service.perform(action, on: [0x6b], inBucket: "guests") { answer in
            if case .written = answer { written.withLock { $0 = true } }
        }
        world.settle()
        return written.withLock { $0 } ? 0 : nil
    }

    private func expiry(_ client: Client) throws -> UInt32 {
        let extras = try #require(client.ask(Ask.on(0xa0, "k", extras: [2])).first).extras
        try #require(extras.count == 21)
        return extras[8..<12].reduce(0) { $0 << 8 | UInt32($1) }
    }

    private func exists(_ client: Client) -> Bool {
        client.ask(Ask.get("k")).map(\.status) == [0]
    }

    @Test(arguments: Door.allCases, phases)
    func relativeExpiryIsNeverEarlyNorMoreThanASecondLate(_ door: Door, _ phase: UInt64) throws {
        let client = try client()
        if door.needsDocument { #expect(client.ask(Ask.set("k", "1")).map(\.status) == [0]) }
        enter(phase)
        #expect(pass(1, through: door, client) == 0)
        // On a whole second no second is added.
        #expect(try expiry(client) == world.time.seconds + (phase == 0 ? 1 : 2))
        let start = world.time.monotonicNanoseconds()
        world.time.advance(to: start + Self.second - 1)
        #expect(exists(client))
        world.time.advance(to: start + 2 * Self.second - 1)
        #expect(!exists(client))
    }

    @Test(arguments: Door.allCases, phases)
    func absoluteExpiryIsUnchanged(_ door: Door, _ phase: UInt64) throws {
        let client = try client()
        if door.needsDocument { #expect(client.ask(Ask.set("k", "1")).map(\.status) == [0]) }
        enter(phase)
        let end = world.time.seconds + 10
        #expect(pass(end, through: door, client) == 0)
        #expect(try expiry(client) == end)
    }

    /// The field, and whether the bucket's bound of 5 s applies.
    @Test(
        arguments: [(UInt32(0), UInt32(5)), (2, 2), (5, 5), (6, 5), (2_592_000, 5)],
        phases
    )
    func maxTTLBoundIsRoundedUp(
        _ row: (field: UInt32, seconds: UInt32),
        _ phase: UInt64
    ) throws {
        let client = try client(maxTTL: 5)
        for door in Door.allCases {
            if door.needsDocument { #expect(client.ask(Ask.set("k", "1")).map(\.status) == [0]) }
            enter(phase)
            #expect(pass(row.field, through: door, client) == 0, "\(door)")
            let end = world.time.seconds + row.seconds + (phase == 0 ? 0 : 1)
            #expect(try expiry(client) == end, "\(door)")
            #expect(client.ask(Ask.on(0x04, "k")).map(\.status) == [0])
        }
    }

    @Test(arguments: phases) func absoluteExpiryBeyondTheBoundIsTheBound(_ phase: UInt64) throws {
        let client = try client(maxTTL: 5)
        enter(phase)
        let (now, later) = (world.time.seconds, phase == 0 ? UInt32(5) : 6)
        for (field, end) in [(now + 4, now + 4), (now + 5, now + 5), (now + 60, now + later)] {
            #expect(pass(field, through: .set, client) == 0)
            #expect(try expiry(client) == end)
        }
    }

    @Test func relativeExpiryNearTheEndOf32BitsDoesNotWrap() throws {
        let client = try client()
        let distance = UInt64(UInt32.max - 5 - world.time.seconds) * Self.second
        world.time.advance(to: world.time.monotonicNanoseconds() + distance + 1)
        #expect(pass(60, through: .set, client) == 0)
        #expect(try expiry(client) == .max)
        #expect(exists(client))
    }

    @Test(arguments: phases) func lockIsNeverEarlyNorMoreThanASecondLate(_ phase: UInt64) throws {
        let client = try client()
        // The requested seconds and the actual ones: zero and too many become 15 s.
        for (field, seconds) in [(UInt32(1), UInt64(1)), (30, 30), (0, 15), (31, 15)] {
            #expect(client.ask(Ask.set("k", "x")).map(\.status) == [0])
            enter(phase)
            #expect(client.ask(Ask.on(0x94, "k", extras: big(field))).map(\.status) == [0])
            let start = world.time.monotonicNanoseconds()
            world.time.advance(to: start + seconds * Self.second - 1)
            #expect(client.ask(Ask.set("k", "y")).map(\.status) == [9])
            world.time.advance(to: start + (seconds + 1) * Self.second - 1)
            #expect(client.ask(Ask.set("k", "y")).map(\.status) == [0])
        }
    }
}
