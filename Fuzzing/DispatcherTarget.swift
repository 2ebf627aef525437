import Bytes
import DataService
import Engine
import Seams
import TestWorld
import Vocabulary

/// A whole data service behind one connection that receives the fuzzer's bytes as a stream.
///
/// The input is three bytes and a stream. The first byte chooses the kind of client, and whether
/// the stream is sent as it is or made into requests (`RequestMaker`). The second is the seed of
/// the pieces in which the stream is sent, the third the seed of the events between them: values
/// are ejected, lanes are delayed, buckets are flushed or deleted.
///
/// - Every answer belongs to one request; every complete request that is not quiet has its answer.
/// - Answers are complete and bounded, no request waits for ever, and the memory account is exact.
final class DispatcherTarget {
    /// Shared by all inputs, because building it takes longer than most inputs; flushes empty it.
    private let world = TestWorld(plainBucket: "memory")
    private var random = SeededRandom(seed: 0)
    private var bucketsMade = 0
    /// Makes well-formed requests from input bytes.
    private let maker = RequestMaker()

    init() {
        do {
            try world.service.open(TestWorld.settings("disk", .persistent))
            try world.service.open(TestWorld.settings("memory", quota: 2 << 20))
        } catch {
            fatalError("the world could not be built: \(error)")
        }
    }

    func run(_ input: ByteView) {
        guard input.count > 3 else { return }
        let mode = input[0]
        random = SeededRandom(seed: UInt64(input[1]))
        var events = SeededRandom(seed: UInt64(input[2]))
        let bucketName = mode & 1 == 0 ? "memory" : "disk"
        let raw = input.dropFirst(3)
        let stream = mode & 0x40 == 0 ? raw.bytes : maker.stream(from: raw)
        let isMemcachedListener = mode & 0x08 != 0
        let client = Client(world, isMemcachedListener: isMemcachedListener)
        if mode & 0x02 == 0, !isMemcachedListener {
            logIn(client, bucketName, isUnordered: mode & 0x04 != 0)
        }
        var rest = stream[...]
        while !rest.isEmpty, !client.isClosed {
            let most = mode & 0x10 == 0 ? 4_096 : 64
            let count = min(rest.count, Int.random(in: 1...most, using: &random))
            client.send(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
            if mode & 0x20 != 0 { disturb(bucketName, client, &events) }
        }
        finish(client, stream)
    }

    private func logIn(_ client: Client, _ bucket: String, isUnordered: Bool) {
        let features: [UInt16] = [0x04, 0x07, 0x0b, 0x10, 0x14] + (isUnordered ? [0x0e] : [])
        let plain: [UInt8] = [0] + Array(bucket.utf8) + [0]
        let replies = client.ask(
            frame(0x1f, value: features.flatMap { big($0) })
                + frame(0x21, key: Array("PLAIN".utf8), value: plain)
        )
        require(replies.map(\.status) == [0, 0], "the login without a password was refused")
    }

    /// An event outside the connection.
    private func disturb(_ name: String, _ client: Client, _ events: inout SeededRandom) {
        switch Int.random(in: 0..<16, using: &events) {
        case 0...2: client.settle()
        case 3...4: world.lanes.hold("reader")
        case 5: world.lanes.release("reader")
        case 6...7: world.pass(milliseconds: 300)
        case 8...11:
            for key in RequestMaker.keys { _ = world.eject(key, from: name) }
        case 12: world.lanes.hold("writer")
        case 13: world.lanes.release("writer")
        case 14: attempt { try world.service.flush(name) }
        default:
            if Int.random(in: 0..<8, using: &events) == 0 { remake(name) }
        }
    }

    private func remake(_ name: String) {
        let type: BucketType = name == "disk" ? .persistent : .ephemeral
        var settings = TestWorld.settings(name, type, quota: 2 << 20)
        bucketsMade += 1
        settings.uuid = String(repeating: "0", count: 20) + String(100_000_000_000 + bucketsMade)
        attempt {
            try world.service.delete(name)
            try world.service.open(settings)
        }
    }

    private func attempt(_ body: () throws -> Void) {
        do { try body() } catch { fatalError("\(error)") }
    }

    // MARK: Invariants

    private func finish(_ client: Client, _ stream: [UInt8]) {
        world.lanes.release("reader")
        world.lanes.release("writer")
        client.settle()
        let replies = client.replies()
        let asked = AskedRequests(stream)
        asked.check(replies, isClosed: client.isClosed)
        require(client.largestOutput <= 2 << 20, "the output of a turn is bounded")
        require(!client.isPaused || client.isClosed, "no request waits for ever")
        client.hangUp()
        world.pass(milliseconds: 2_000)
        let errors = world.trace.lines(atLeast: .error)
        require(errors.isEmpty, "\(errors)")
        for bucket in world.service.buckets {
            let engine = bucket.engine
            let counted = TestWorld.recount(engine)
            require(
                engine.account.bytes == counted,
                "\(bucket.name): \(engine.account.bytes) in the account, \(counted) counted"
            )
            require(
                bucket.totals.unpersisted == 0,
                "\(bucket.name): \(bucket.totals.unpersisted) changes are not persisted, the "
                    + "oldest for \(bucket.oldestUnpersistedAge) ns"
            )
            if bucket.totals.items + bucket.totals.tombstones > 0 {
                attempt { try world.service.flush(bucket.name) }
                world.settle()
                require(
                    engine.account.bytes == TestWorld.recount(engine),
                    "the memory account is exact after a flush"
                )
            }
        }
        require(world.service.alerts.current.isEmpty, "the service reports no alert")
    }
}
