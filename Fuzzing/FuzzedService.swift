import Bytes
import DataService
import Engine
import Seams
import TestWorld
import Vocabulary

/// A data service with an ephemeral and a persistent bucket, for targets that connect to it.
///
/// It is shared by all inputs of a target, because building it takes longer than most inputs; each
/// input ends with `checkAtRest`, which flushes the buckets.
final class FuzzedService {
    let world = TestWorld(plainBucket: "memory")
    private var bucketsMade = 0

    init() {
        do {
            try world.service.open(TestWorld.settings("disk", .persistent))
            try world.service.open(TestWorld.settings("memory", quota: 2 << 20))
        } catch {
            fatalError("the world could not be built: \(error)")
        }
    }

    /// Logs in as the bucket, without a password.
    func logIn(_ client: Client, _ bucket: String, features: [UInt16]) {
        let asked: [UInt16] = [0x04, 0x07, 0x0b, 0x10, 0x14] + features
        let plain: [UInt8] = [0] + Array(bucket.utf8) + [0]
        let replies = client.ask(
            frame(0x1f, value: asked.flatMap { big($0) })
                + frame(0x21, key: Array("PLAIN".utf8), value: plain)
        )
        require(replies.map(\.status) == [0, 0], "the login without a password was refused")
    }

    /// An event outside the connection.
    func disturb(_ name: String, _ client: Client, _ events: inout SeededRandom) {
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

    /// Lets the held lanes do their work.
    func finishWork() {
        world.lanes.release("reader")
        world.lanes.release("writer")
        world.settle()
    }

    /// What holds for a connection at the end of its input, after `finishWork`.
    func check(_ client: Client) {
        require(client.largestOutput <= 2 << 20, "the output of a turn is bounded")
        require(!client.isPaused || client.isClosed, "no request waits for ever")
        client.hangUp()
    }

    /// What holds for the service once all connections are closed.
    func checkAtRest() {
        world.pass(milliseconds: 2_000)
        let errors = world.trace.lines(atLeast: .error)
        require(errors.isEmpty, "\(errors)")
        for bucket in world.service.buckets { checkAtRest(bucket) }
        require(world.service.alerts.current.isEmpty, "the service reports no alert")
    }

    private func checkAtRest(_ bucket: OpenBucket) {
        let engine = bucket.engine
        let counted = TestWorld.recount(engine)
        require(
            engine.account.bytes == counted,
            "\(bucket.name): \(engine.account.bytes) in the account, \(counted) counted"
        )
        require(
            bucket.totals[.diskQueue] == 0,
            "\(bucket.name): \(bucket.totals[.diskQueue]) changes are not persisted, the "
                + "oldest for \(bucket.statistics(readsDisk: true)[.oldestUnpersisted]) ms"
        )
        if bucket.totals[.items] + bucket.totals[.tombstones] > 0 {
            attempt { try world.service.flush(bucket.name) }
            world.settle()
            require(
                engine.account.bytes == TestWorld.recount(engine),
                "the memory account is exact after a flush"
            )
        }
    }
}
