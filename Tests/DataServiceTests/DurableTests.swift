import Bytes
import DataService
import Seams
import TestWorld
import Testing
import Vocabulary

/// Durable writes for one node's clients: refusals, waits and outcomes.
@Suite struct DurableTests {
    static let sync: UInt16 = 0x11
    let world = TestWorld()

    /// All vBuckets are active here, with `chain` as their copies.
    private func open(
        _ type: BucketType = .persistent,
        chain: [UInt16]? = nil,
        copies: Int = 2,
        minimum: DurabilityLevel? = nil
    ) throws {
        var settings = TestWorld.settings("guests", type)
        settings.minimumDurability = minimum
        guard let chain else { return try world.service.open(settings) }
        let map = DurableTests.map(chain, copies: copies)
        try world.service.open(settings, map, as: NodeNumber(1), isNew: true)
    }

    static func map(
        _ chain: [UInt16],
        copies: Int = 2,
        index: UInt64 = 1,
        fence: UInt64 = 1,
        isConfirmed: Bool = true,
        isResumed: Bool = false
    ) -> BucketAssignment {
        BucketAssignment(
            name: "guests",
            uuid: TestWorld.settings("guests").uuid,
            index: index,
            vBuckets: (0..<64).map { _ in
                VBucketAssignment(
                    fence: fence,
                    stage: index,
                    chain: chain.map { NodeNumber($0) },
                    isConfirmed: isConfirmed,
                    copies: copies,
                    isResumed: isResumed
                )
            }
        )
    }

    func client(_ more: [UInt16] = [sync]) -> Client {
        world.client(of: "guests", features: Features.usual + more)
    }

    /// SET with a level and, if given, a timeout in milliseconds.
    func set(
        _ key: String,
        _ value: String,
        level: UInt8 = 1,
        milliseconds: UInt16? = nil,
        opcode: UInt8 = 0x01,
        opaque: UInt32 = 0
    ) -> [UInt8] {
        let framing = milliseconds.map { [0x13, level] + big($0) } ?? [0x11, level]
        let extras = big(UInt32(7)) + big(UInt32(0))
        return Ask.on(opcode, key, Array(value.utf8), extras: extras, opaque, framing: framing)
    }

    private func statistic(_ client: Client, _ name: String) -> String {
        let lines = client.ask(frame(0x10))
        return lines.first { String(decoding: $0.key, as: UTF8.self) == name }?.text ?? ""
    }

    // MARK: One copy

    @Test func singleCopyIsMajorityOfOne() throws {
        try open()
        let client = client()
        let replies = client.ask(set("a", "1") + Ask.get("a"))
        #expect(replies.map(\.status) == [0, 0])
        #expect(replies.last?.text == "1")
        #expect(replies.first?.cas == replies.last?.cas)
        // UUID, and the seqno of the commit, which follows that of the prepare.
        #expect(replies.first?.extras.suffix(8) == big(UInt64(2))[...])
    }

    @Test(arguments: [2, 3] as [UInt8])
    func persistLevelWaitsForImmediateCommit(_ level: UInt8) throws {
        try open()
        let client = client()
        world.lanes.hold("writer")
        client.send(set("a", "1", level: level))
        client.settle()
        #expect(client.replies().isEmpty)
        world.lanes.release("writer")
        client.settle()
        #expect(client.replies().map(\.status) == [0])
        #expect(client.ask(Ask.get("a")).map(\.text) == ["1"])
    }

    /// As if acknowledgements arrived after another node became the active one.
    @Test(arguments: [0x01, 0x11] as [UInt8])
    func commitAfterEndOfLeaseIsAnsweredAsAmbiguous(_ opcode: UInt8) throws {
        try open()
        let client = client()
        world.lanes.hold("writer")
        client.send(set("a", "1", level: 2, opcode: opcode))
        client.settle()
        world.service.setLease(endNanoseconds: 0)
        world.lanes.release("writer")
        client.settle()
        #expect(client.replies().map(\.status) == [0xa3])
        #expect(client.ask(Ask.get("a")).map(\.status) == [7])
        world.service.setLease(endNanoseconds: .max)
        #expect(client.ask(Ask.get("a")).map(\.text) == ["1"])
    }

    @Test func durableWritesAreAnsweredLikePlainWrites() throws {
        try open()
        let client = client()
        let durable: [UInt8] = [0x11, 1]
        #expect(client.ask(set("a", "1", opcode: 0x02)).map(\.status) == [0])
        #expect(client.ask(set("a", "2", opcode: 0x02)).map(\.status) == [2])
        #expect(client.ask(set("b", "2", opcode: 0x03)).map(\.status) == [1])
        let append = Ask.on(0x0e, "a", Array("0".utf8), framing: durable)
        #expect(client.ask(append).map(\.status) == [0])
        #expect(client.ask(Ask.get("a")).map(\.text) == ["10"])
        let counter = big(UInt64(5)) + big(UInt64(3)) + big(UInt32(0))
        let add = Ask.on(0x05, "n", extras: counter, framing: durable)
        let counts = client.ask(add + add)
        #expect(counts.map(\.value) == [big(UInt64(3)), big(UInt64(8))])
        #expect(counts.map(\.extras.count) == [16, 16])
        #expect(client.ask(Ask.on(0x04, "a", framing: durable)).map(\.status) == [0])
        #expect(client.ask(Ask.get("a")).map(\.status) == [1])
    }

    @Test func quietDurableWritesAnswerOnlyFailures() throws {
        try open(chain: [1, 2])
        let client = client([DurableTests.sync, Features.unordered])
        client.send(set("a", "1", milliseconds: 50, opcode: 0x11, opaque: 5))
        client.settle()
        #expect(client.replies().isEmpty)
        world.pass(milliseconds: 60)
        client.settle()
        #expect(client.replies().map { [$0.opaque, UInt32($0.status)] } == [[5, 0xa3]])
        let other = try otherWorld()
        #expect(other.ask(set("a", "1", opcode: 0x11) + frame(0x0a)).map(\.opcode) == [0x0a])
        #expect(other.ask(Ask.get("a")).map(\.text) == ["1"])
    }

    private func otherWorld() throws -> Client {
        try world.service.open(TestWorld.settings("alone"))
        return world.client(of: "alone", features: Features.usual)
    }

    // MARK: Refusals

    @Test func unreachableDurabilityLevelsAreRefused() throws {
        try open(.ephemeral)
        let client = client()
        #expect(client.ask(set("a", "1", level: 2)).map(\.status) == [0xa0])
        #expect(client.ask(set("a", "1", level: 3)).map(\.status) == [0xa0])
        #expect(client.ask(set("a", "1", level: 1)).map(\.status) == [0])
        #expect(client.ask(set("a", "1", milliseconds: 0)).map(\.status) == [4])
        #expect(client.ask(set("a", "1", milliseconds: 0xffff)).map(\.status) == [4])
        let touch = Ask.on(0x1c, "a", extras: big(UInt32(9)), framing: [0x11, 1])
        #expect(client.ask(touch).map(\.status) == [0x83])
        #expect(client.ask(Ask.on(0x00, "a", framing: [0x11, 1])).map(\.status) == [4])
    }

    @Test(arguments: [([1], 2), ([1, 2, 3, 4], 4), ([1], 3)] as [([UInt16], Int)])
    func tooFewOrTooManyCopiesMakeDurableWriteImpossible(_ chain: [UInt16], _ copies: Int) throws {
        try open(chain: chain, copies: copies)
        let client = client()
        for level in 1...3 as ClosedRange<UInt8> {
            #expect(client.ask(set("a", "1", level: level)).map(\.status) == [0xa1])
        }
        #expect(client.ask(Ask.get("a")).map(\.status) == [1])
        #expect(client.ask(Ask.set("a", "1")).map(\.status) == [0])
    }

    // MARK: Waiting

    @Test func pendingPrepareBlocksWritesAndIsInvisible() throws {
        try open(chain: [1, 2])
        let (writer, other, old) = (client(), client(), client([]))
        #expect(other.ask(Ask.set("a", "before")).map(\.status) == [0])
        writer.send(set("a", "after", milliseconds: 1_000))
        writer.settle()
        #expect(other.ask(Ask.get("a")).map(\.text) == ["before"])
        let (lock, touch) = (Ask.on(0x94, "a"), Ask.on(0x1c, "a", extras: big(UInt32(9))))
        for request in [Ask.set("a", "x"), set("a", "x"), Ask.on(0x04, "a"), lock, touch] {
            #expect(other.ask(request).map(\.status) == [0xa2])
        }
        // A client without the feature is told to retry.
        #expect(old.ask(Ask.set("a", "x")).map(\.status) == [0x86])
        #expect(other.ask(Ask.set("b", "x")).map(\.status) == [0])
        world.pass(milliseconds: 999)
        writer.settle()
        #expect(writer.replies().isEmpty)
        world.pass(milliseconds: 1)
        writer.settle()
        #expect(writer.replies().map(\.status) == [0xa3])
        #expect(other.ask(Ask.get("a")).map(\.text) == ["before"])
        #expect(other.ask(Ask.set("a", "last")).map(\.status) == [0])
        #expect(statistic(other, "vb_active_sync_write_accepted_count") == "1")
        #expect(statistic(other, "vb_active_sync_write_committed_count") == "0")
        #expect(statistic(other, "vb_active_sync_write_aborted_count") == "1")
        #expect(statistic(other, "vb_active_sync_write_ambiguous_count") == "1")
    }

    @Test func requestsOvertakeDurableWriteOnlyIfUnordered() throws {
        try open(chain: [1, 2])
        let ordered = client()
        ordered.send(set("a", "1", milliseconds: 500, opaque: 1) + Ask.get("b", opaque: 2))
        ordered.settle()
        #expect(ordered.replies().isEmpty)
        let free = client([DurableTests.sync, Features.unordered])
        let requests = (0..<200).flatMap { set("k\($0)", "1", milliseconds: 500, opaque: 1) }
        free.send(requests + Ask.get("b", opaque: 2))
        free.settle()
        #expect(free.replies().map(\.opaque) == [2])
        world.pass(milliseconds: 500)
        ordered.settle()
        free.settle()
        #expect(ordered.replies().map { [$0.opaque, UInt32($0.status)] } == [[1, 0xa3], [2, 1]])
        #expect(free.replies().filter { $0.status == 0xa3 }.count == 200)
    }

    @Test func durableWriteWithoutTimeoutEndsAfterTenSeconds() throws {
        try open(chain: [1, 2])
        let client = client()
        client.send(set("a", "1"))
        client.settle()
        world.pass(milliseconds: 9_999)
        client.settle()
        #expect(client.replies().isEmpty)
        world.pass(milliseconds: 2)
        client.settle()
        #expect(client.replies().map(\.status) == [0xa3])
    }

    @Test func disconnectLeavesPreparedWriteInPlace() throws {
        try open()
        let client = client()
        world.lanes.hold("writer")
        client.send(set("a", "1", level: 3))
        client.hangUp()
        world.lanes.release("writer")
        world.settle()
        #expect(self.client().ask(Ask.get("a")).map(\.text) == ["1"])
    }

    // MARK: Ownership changes

    private enum End: CaseIterable {
        case takenAway
        case tooFew
        case sealed
        case flushed
        case deleted
    }

    @Test(arguments: End.allCases)
    private func durableWriteIsAnsweredAtOnceIfItsCopyLosesTheDecision(_ end: End) throws {
        try open(chain: [1, 2])
        let client = client()
        client.send(set("a", "1"))
        client.settle()
        #expect(client.replies().isEmpty)
        switch end {
        case .takenAway:
            let map = DurableTests.map([2, 1], index: 2, fence: 2)
            world.service.applyMap(map, as: NodeNumber(1))
        case .tooFew:
            let map = DurableTests.map([1], index: 2, fence: 2)
            world.service.applyMap(map, as: NodeNumber(1))
        case .sealed:
            let all = (0..<64).map { (vBucket: VBucketID(UInt16($0)), fence: UInt64(1)) }
            _ = world.service.seal("guests", all)
        case .flushed: try world.service.flush("guests")
        case .deleted: try world.service.delete("guests")
        }
        client.settle()
        #expect(client.replies().map(\.status) == [0xa3])
    }

    /// A replica was removed: the fence changes, and the client does not notice.
    @Test func undecidedWritesContinueUnderNextFenceOfActiveCopy() throws {
        try open(chain: [1, 2, 3], copies: 3)
        let client = client()
        client.send(set("a", "1"))
        client.settle()
        let map = DurableTests.map([1, 2], copies: 3, index: 2, fence: 2, isResumed: true)
        world.service.applyMap(map, as: NodeNumber(1))
        client.settle()
        #expect(client.replies().isEmpty)
        // Neither inherited, so that readers would wait for it, nor forgotten.
        #expect(self.client().ask(Ask.get("a")).map(\.status) == [1])
        #expect(self.client().ask(Ask.set("b", "2")).map(\.status) == [0])
        let alone = DurableTests.map([1], copies: 1, index: 3, fence: 2, isResumed: true)
        world.service.applyMap(alone, as: NodeNumber(1))
        client.settle()
        #expect(client.replies().map(\.status) == [0])
        #expect(self.client().ask(Ask.get("a")).map(\.text) == ["1"])
    }

    private func getMeta(_ key: String) -> [UInt8] { Ask.on(0xa0, key) }

    private func observe(_ key: String, _ vBucket: VBucketID) -> [UInt8] {
        frame(0x92, value: big(vBucket.number) + big(UInt16(key.utf8.count)) + Array(key.utf8))
    }

    @Test func resumedSealedCopyCompletesItsPrepares() throws {
        try open(chain: [1], copies: 1)
        let client = client()
        let number = VBucketID(ofKey: Array("a".utf8), count: 64)
        world.lanes.hold("durability")
        client.send(set("a", "1"))
        client.settle()
        _ = world.service.seal("guests", [(number, 1)])
        world.lanes.release("durability")
        client.settle()
        #expect(client.replies().map(\.status) == [0xa3])
        let map = DurableTests.map([1], copies: 1, index: 2, fence: 2)
        world.service.applyMap(map, as: NodeNumber(1))
        world.lanes.hold("durability")
        let outcomes = world.service.activate(
            "guests",
            [CopyActivation(number, 2, reason: .resumption(fence: 1))]
        )
        guard case .ready? = outcomes.first else {
            Issue.record("the copy does not serve again: \(outcomes)")
            return
        }
        // A client may have seen the value: until it is committed again, no client gets another
        // one.
        #expect(client.ask(Ask.get("a")).map(\.status) == [0xa4])
        #expect(self.client([]).ask(Ask.get("a")).map(\.status) == [0x86])
        #expect(client.ask(getMeta("a")).map(\.status) == [0xa4])
        #expect(self.client([]).ask(getMeta("a")).map(\.status) == [0x86])
        #expect(client.ask(observe("a", number)).map(\.status) == [0xa4])
        world.lanes.release("durability")
        client.settle()
        #expect(client.ask(Ask.get("a")).map(\.text) == ["1"])
        #expect(client.ask(getMeta("a")).map(\.status) == [0])
        #expect(client.ask(observe("a", number)).map(\.status) == [0])
    }

    // MARK: The minimum level

    @Test func minimumDurabilityAppliesToEveryWrite() throws {
        try open(chain: [1, 2], minimum: .majority)
        let client = client()
        client.send(Ask.set("a", "1"))
        client.settle()
        #expect(client.replies().isEmpty)
        world.pass(milliseconds: 10_001)
        client.settle()
        #expect(client.replies().map(\.status) == [0xa3])
        var settings = TestWorld.settings("guests", .persistent)
        settings.minimumDurability = nil
        world.service.bucket(named: "guests")?.change(settings)
        #expect(client.ask(Ask.set("a", "1")).map(\.status) == [0])
    }
}
