import Bytes
import Engine
import Persistence
import Replication
import Testing
import Vocabulary

/// Two copies of a vBucket, a connection that comes and goes, and what both should come to.
final class Pair {
    var active: Copy
    var replica: Copy
    var sender: Sender?
    var receiver: Receiver
    var random: SeededRandom
    let keys: Int
    /// Every change of the active copy, in order; after a failover what the new one had.
    var history: [Entry] = []
    /// The newest durable write of a key that was answered with success, while nothing came after it.
    var answered: [[UInt8]: (change: Change, level: DurabilityLevel)] = [:]
    /// The replica's history is the active copy's.
    var isAligned = false
    /// The replica has had all that the active copy had when they last met.
    var isWhole = false
    var target = Seqno.zero
    var commits = 0
    var aborts = 0
    /// Below this seqno the history of states is unknown.
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
            if end >= target { isWhole = true }
            guard end >= historyStart else { return }
            #expect(receiver.mirror == state(at: end), "a snapshot's end is what was there then")
            #expect(replica.prepares() == prepares(at: end), "so are its prepares")
        }
    }

    func note(_ key: [UInt8], _ value: [UInt8]) throws {
        guard let meta = try active.meta(key), meta.seqno > history.last?.seqno ?? .zero else {
            return
        }
        history.append(
            .change(Change(key: key, meta: meta, value: meta.isDeleted ? [] : value))
        )
        answered[key] = nil
    }

    func write() throws {
        let key = Array("key-\(Int.random(in: 0..<keys, using: &random))".utf8)
        let now = UInt32(active.nanoseconds / 1_000_000_000)
        // What has expired becomes a change of its own first.
        try note(key, [])
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1:
            if case .done = try active.delete(key) { try note(key, []) }
        case 2:
            active.nanoseconds += 3_000_000_000
        default:
            let count = Int.random(in: 0..<200, using: &random)
            let value = (0..<count).map { _ in UInt8.random(in: 97...122, using: &random) }
            let expires = Int.random(in: 0..<6, using: &random) == 0
            let flags = UInt32(count % 3)
            switch try active.set(key, value, expiry: expires ? now + 10 : 0, flags: flags) {
            case .done: try note(key, value)
            case .refused(.writeInProgress), .refused(.writeRecommitting):
                #expect(active.prepares()[key] != nil)
            case let other: Issue.record("a set came to \(other)")
            }
        }
    }

    func disconnect() {
        sender?.letGo()
        sender = nil
        receiver.stream.disconnected()
    }

    func connect() throws {
        let resets = receiver.resets
        guard sender == nil, let stream = try receiver.open(active) else { return }
        receiver.debt = FlowDebt(bytesMax: 4_000)
        target = active.resumePoint.high
        if receiver.resets != resets { isWhole = false }
        if receiver.stream.covered >= target { isWhole = true }
        isAligned = true
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

    /// The active copy fails; the replica is promoted and follows no other copy.
    func failOver() throws {
        disconnect()
        nextUUID += 1
        let uuid = VBucketUUID(nextUUID)
        checkPrepares()
        let covered = replica.vBucket.withCore { core in
            defer { core.promote(uuid) }
            return core.coveredSeqno
        }
        active.vBucket.withCore { $0.become(.replica) }
        let old = state(at: Seqno(.max))
        replica.nanoseconds = max(active.nanoseconds, replica.nanoseconds)
        swap(&active, &replica)
        beginHistory(receiver.mirror)
        historyStart = active.vBucket.withCore { $0.highSeqno }
        try abortUncovered(covered)
        checkAnswered()
        receiver = Receiver(replica)
        receiver.mirror = old
        watch()
    }

    /// The replica's process dies; what was on disk is what it has.
    func crashReplica() throws {
        guard replica.type == .persistent else { return }
        disconnect()
        let onDisk = replica.vBucket.withCore { $0.coveredOnDisk }
        try replica.crash()
        #expect(replica.vBucket.withCore { $0.coveredSeqno } == onDisk, "what it said is on disk")
        checkPrepares()
        forgetWhatMemoryHeld()
        // It may have been rebuilt, and changes that other copies rely on were never on this disk.
        if onDisk < target { isWhole = false }
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
