import DataService
import TestWorld
import Testing
import Vocabulary

/// TAP clients without history that connect after vBuckets moved to the node.
@Suite struct TapMoveTests {
    private static let own = NodeNumber(1)
    private static let other = NodeNumber(2)
    private static let all = (0..<64).map { VBucketID(UInt16($0)) }
    private let world = TestWorld()

    private static func map(
        _ index: UInt64,
        _ chain: [NodeNumber],
        builders: [NodeNumber] = [],
        isConfirmed: Bool = true
    ) -> BucketAssignment {
        BucketAssignment(
            name: "guests",
            uuid: TestWorld.settings("guests").uuid,
            index: index,
            vBuckets: all.map { _ in
                VBucketAssignment(
                    fence: index,
                    stage: index,
                    chain: chain,
                    isConfirmed: isConfirmed,
                    builders: builders,
                    copies: 2
                )
            }
        )
    }

    private func open(_ chain: [NodeNumber]) throws {
        try world.service.open(
            TestWorld.settings("guests"),
            Self.map(1, chain),
            as: Self.own,
            isNew: true
        )
    }

    private func follow(_ map: BucketAssignment) { world.service.applyMap(map, as: Self.own) }

    /// Activates all copies under a fence.
    private func activate(_ fence: UInt64, _ reason: CopyActivation.Reason) {
        let asked = Self.all.map { CopyActivation($0, fence, reason: reason) }
        for outcome in world.service.activate("guests", asked) {
            if case .refused(let report) = outcome { Issue.record("refused: \(report)") }
        }
    }

    private func write(_ key: String) {
        #expect(world.client(of: "guests").ask(Ask.set(key, "1")).map(\.status) == [0])
    }

    /// The keys that a new client without history gets.
    private func keys() -> Set<String> {
        let client = world.client(of: "guests")
        let present = [UInt8](repeating: 0xff, count: 8)
        client.send(frame(0x40, value: present, extras: big(UInt32(1))))
        client.settle()
        let mutations = client.messages().filter { $0.opcode == 0x41 }
        client.hangUp()
        return Set(mutations.map { String(decoding: $0.key, as: UTF8.self) })
    }

    /// A former replica with the document "before", promoted under fence 3.
    private func promote(isConfirmed: Bool = true) throws {
        try open([Self.own, Self.other])
        write("before")
        follow(Self.map(2, [Self.other, Self.own]))
        follow(Self.map(3, [Self.own], isConfirmed: isConfirmed))
        activate(3, .promotion(expected: nil))
    }

    @Test func changesSincePromotionAreSentForAMinute() throws {
        try promote()
        write("after")
        #expect(keys() == ["after"])
        world.jump(milliseconds: 61_000)
        #expect(keys() == [])
    }

    @Test func changesAfterPromotionConfirmedByLaterMapAreSent() throws {
        try promote(isConfirmed: false)
        var map = Self.map(4, [Self.own])
        for number in map.vBuckets.indices {
            map.vBuckets[number].fence = 3
            map.vBuckets[number].branch = 3
        }
        follow(map)
        write("after")
        #expect(keys() == ["after"])
    }

    @Test func vBucketThatWasBuiltHereIsSentFromItsBeginning() throws {
        try open([Self.other])
        follow(Self.map(2, [Self.other], builders: [Self.own]))
        try world.replicate("during", "1")
        follow(Self.map(3, [Self.own]))
        activate(3, .promotion(expected: nil))
        write("after")
        #expect(keys() == ["during", "after"])
        world.jump(milliseconds: 61_000)
        #expect(keys() == [])
    }

    @Test func closedClientContinuesAtItsPositionForAMinute() throws {
        try open([Self.own])
        write("before")
        #expect(keys() == [])
        write("between")
        #expect(keys() == ["between"])
        world.jump(milliseconds: 61_000)
        #expect(keys() == [])
    }

    @Test func tapWithoutPromotionSendsNoEarlierChanges() throws {
        try open([Self.own, Self.other])
        write("before")
        #expect(keys() == [])
    }

    @Test func tapAfterResumptionSendsNoEarlierChanges() throws {
        try open([Self.own, Self.other])
        write("before")
        _ = world.service.seal("guests", Self.all.map { ($0, 1) })
        follow(Self.map(2, [Self.own, Self.other]))
        activate(2, .resumption(fence: 1))
        write("after")
        #expect(keys() == [])
    }
}
