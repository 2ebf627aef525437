import Bytes
import Engine
import Persistence
import Replication
import Testing
import Vocabulary

/// Two copies of a vBucket, a connection that comes and goes, and what both should come to.
private final class Pair {
    var active: Copy
    var replica: Copy
    var sender: Sender?
    var receiver: Receiver
    var random: SeededRandom
    let keys: Int
    /// Every change of the active copy, in order; after a failover what the new one had.
    var history: [Change] = []
    /// Below this nobody knows any more what was there when.
    var historyStart = Seqno.zero
    var nextUUID: UInt64 = 100
    var completed = 0
    var scans = 0

    init(seed: UInt64, _ type: BucketType) throws {
        random = SeededRandom(seed: seed)
        keys = Int.random(in: 2...60, using: &random)
        active = try Copy(type, state: .active, uuid: 1)
        replica = try Copy(type, state: .replica, uuid: 2)
        receiver = Receiver(replica)
        watch()
    }

    func watch() {
        receiver.didComplete = { [unowned self] end in
            completed += 1
            guard end >= historyStart else { return }
            #expect(receiver.mirror == state(at: end), "a snapshot's end is what was there then")
        }
    }

    func state(at seqno: Seqno) -> [[UInt8]: Change] {
        var state: [[UInt8]: Change] = [:]
        for change in history where change.meta.seqno <= seqno { state[change.key] = change }
        return state
    }

    private func note(_ key: [UInt8], _ value: [UInt8]) throws {
        guard let meta = try active.meta(key), meta.seqno > history.last?.meta.seqno ?? .zero else {
            return
        }
        history.append(Change(key: key, meta: meta, value: meta.isDeleted ? [] : value))
    }

    func write() throws {
        let key = Array("key-\(Int.random(in: 0..<keys, using: &random))".utf8)
        let now = UInt32(active.nanoseconds / 1_000_000_000)
        // What has expired becomes a change of its own first.
        try note(key, [])
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1:
            try active.delete(key)
            try note(key, [])
        case 2:
            active.nanoseconds += 3_000_000_000
        default:
            let count = Int.random(in: 0..<200, using: &random)
            let value = (0..<count).map { _ in UInt8.random(in: 97...122, using: &random) }
            let expires = Int.random(in: 0..<6, using: &random) == 0
            try active.set(key, value, expiry: expires ? now + 10 : 0, flags: UInt32(count % 3))
            try note(key, value)
        }
    }

    func disconnect() {
        sender?.letGo()
        sender = nil
        receiver.stream.disconnected()
    }

    func connect() throws {
        guard sender == nil, let stream = try receiver.open(active) else { return }
        receiver.debt = FlowDebt(bytesMax: 4_000)
        sender = Sender(active, stream, window: FlowWindow(bytesMax: 4_000))
    }

    /// Sends a little and delivers some of it; false where nothing moved.
    func pump() throws -> Bool {
        guard let sender else { return false }
        var moved = try sender.step(&random)
        let count = Int.random(in: 0...sender.wire.count, using: &random)
        let (taken, acknowledged) = try receiver.receive(sender.wire.view.slice(0, count))
        sender.wire.removeFirst(taken)
        for bytes in acknowledged {
            let isCounted = sender.window.acknowledged(Int(bytes))
            #expect(isCounted)
        }
        if taken == 0, sender.wire.count > 0 { moved = true }
        scans = max(scans, sender.scans)
        return moved || taken > 0
    }

    /// The active copy is gone; the replica takes over, and follows nobody.
    func failOver() throws {
        disconnect()
        nextUUID += 1
        let uuid = VBucketUUID(nextUUID)
        replica.vBucket.withCore { $0.promote(uuid) }
        active.vBucket.withCore { $0.become(.replica) }
        let old = state(at: Seqno(.max))
        replica.nanoseconds = max(active.nanoseconds, replica.nanoseconds)
        swap(&active, &replica)
        history = receiver.mirror.values.sorted { $0.meta.seqno < $1.meta.seqno }
        historyStart = active.vBucket.withCore { $0.highSeqno }
        receiver = Receiver(replica)
        receiver.mirror = old
        watch()
    }

    /// The replica's process dies; what was on disk is what it has.
    func crashReplica() throws {
        guard replica.type == .persistent else { return }
        disconnect()
        try replica.crash()
        let (resets, before) = (receiver.resets, receiver.mirror)
        receiver = Receiver(replica)
        receiver.resets = resets
        receiver.mirror = try replica.stored()
        for (key, change) in receiver.mirror where before[key]?.meta.seqno == change.meta.seqno {
            #expect(before[key] == change)
        }
        watch()
    }

    func settle() throws {
        try connect()
        var idle = 0
        for _ in 0..<200_000 where idle < 50 {
            idle = try pump() ? 0 : idle + 1
            if let bytes = receiver.debt.takeAll(), let sender {
                _ = sender.window.acknowledged(Int(bytes))
            }
        }
        #expect(idle == 50, "the stream comes to rest")
    }
}

@Suite struct EndToEndTests {
    private func expectEqual(_ pair: Pair) throws {
        let expected = pair.state(at: Seqno(.max))
        let (one, other) = (pair.active.standing, pair.replica.standing)
        #expect(one.high == other.high)
        #expect(other.openSnapshot == nil)
        #expect(one.log == other.log)
        #expect(pair.receiver.mirror == expected)
        for change in expected.values {
            let seqno = viewing(change.key) { key in
                pair.replica.vBucket.withCore {
                    $0.currentSeqno(
                        of: key,
                        hash: pair.replica.hash(key),
                        asked: change.meta.seqno
                    )
                }
            }
            #expect(seqno == change.meta.seqno)
        }
        let (live, dead) = pair.replica.vBucket.withCore { ($0.liveCount, $0.tombstoneCount) }
        #expect(live == expected.values.count { !$0.meta.isDeleted })
        #expect(dead == expected.values.count { $0.meta.isDeleted })
        guard pair.active.type == .persistent else { return }
        for copy in [pair.active, pair.replica] {
            try copy.flush()
            #expect(try copy.stored() == expected)
        }
        let records = try pair.replica.lane.records()
        let record = try #require(records.first { $0.id == pair.replica.id })
        #expect(record.openSnapshot == nil)
        #expect(record.failoverLog == one.log)
    }

    /// Whatever happens on the way: once all is quiet, the replica is what the active copy is.
    @Test(arguments: 1...60)
    func aReplicaComesToEqualTheActiveCopy(seed: UInt64) throws {
        let pair = try Pair(seed: seed, seed % 4 == 0 ? .ephemeral : .persistent)
        let failsOver = seed % 3 == 0
        for _ in 0..<1_500 {
            switch Int.random(in: 0..<100, using: &pair.random) {
            case 0..<35: try pair.write()
            case 35..<80: _ = try pair.pump()
            case 80..<83: try pair.active.flush()
            case 83..<86: try pair.replica.flush()
            case 86: try pair.active.compact()
            case 87: try pair.replica.compact()
            case 88..<90: pair.active.eject()
            case 90: pair.replica.eject()
            case 91..<93: _ = pair.active.vBucket.withCore { $0.dropSlowestCursor() }
            case 93: pair.disconnect()
            case 94: try pair.crashReplica()
            case 95 where failsOver: try pair.failOver()
            default: try pair.connect()
            }
        }
        try pair.settle()
        try expectEqual(pair)
        #expect(pair.completed > 3)
    }

    @Test func whatIsNotInMemoryComesFromDiskAndThenFromMemory() throws {
        let pair = try Pair(seed: 5, .persistent)
        for _ in 0..<400 { try pair.write() }
        try pair.active.flush()
        pair.active.eject()
        for _ in 0..<20 { try pair.write() }
        try pair.settle()
        try expectEqual(pair)
        #expect(pair.scans == 1)
        for _ in 0..<20 {
            try pair.write()
            while try pair.pump() {}
        }
        try pair.settle()
        try expectEqual(pair)
        #expect(pair.scans == 1, "from then on memory has everything")
    }

    @Test func aReplicaThatDiesInsideASnapshotGoesOnInIt() throws {
        let pair = try Pair(seed: 6, .persistent)
        for _ in 0..<300 { try pair.write() }
        try pair.connect()
        while pair.receiver.stream.high == .zero { _ = try pair.pump() }
        #expect(pair.receiver.stream.covered == .zero)
        try pair.replica.flush()
        try pair.crashReplica()
        let standing = pair.replica.standing
        #expect(standing.openSnapshot?.start == .zero)
        #expect(standing.high > .zero)
        try pair.settle()
        try expectEqual(pair)
        #expect(pair.receiver.resets == 0)
    }

    @Test func whoWroteAloneIsBuiltAnew() throws {
        let pair = try Pair(seed: 7, .persistent)
        for _ in 0..<100 { try pair.write() }
        try pair.settle()
        pair.disconnect()
        for _ in 0..<30 { try pair.write() }
        try pair.failOver()
        for _ in 0..<30 { try pair.write() }
        try pair.settle()
        #expect(pair.receiver.resets == 1)
        try expectEqual(pair)
    }

    @Test func whoWroteNothingMoreFollowsAtOnce() throws {
        let pair = try Pair(seed: 8, .persistent)
        for _ in 0..<100 { try pair.write() }
        try pair.settle()
        try pair.failOver()
        for _ in 0..<30 { try pair.write() }
        try pair.settle()
        #expect(pair.receiver.resets == 0)
        try expectEqual(pair)
    }
}
