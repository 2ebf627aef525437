import Bytes
import DataService
import Engine
import Foundation
import Seams
import TestWorld
import Testing
import Vocabulary

/// Real threads: reactors, flushers, fetchers and an administrator, all using the same few
/// documents.
///
/// The test itself checks little: every request is answered, no value is torn, memory is counted
/// correctly. The thread sanitizer checks the rest.
@Suite(.serialized) struct ThreadTests {
    private static let keys = (0..<24).map { "key\($0)" }
    private static let rounds = 400

    /// The state that threads share during a test; each part is used as its owner allows.
    private struct Shared: @unchecked Sendable {
        let world: TestWorld
        let isOver = Guarded(false)
        let failures = Guarded<[String]>([])

        func report(_ text: String) { failures.withLock { $0.append(text) } }
    }

    private func run(_ bodies: [@Sendable () -> Void]) {
        let group = DispatchGroup()
        for body in bodies {
            group.enter()
            let thread = Thread {
                body()
                group.leave()
            }
            thread.stackSize = 4 << 20
            thread.start()
        }
        group.wait()
    }

    /// One reactor's work: a client that mixes everything and checks what it reads.
    private static func serve(_ shared: Shared, reactor: Int) {
        var random = SeededRandom(seed: UInt64(reactor) + 1)
        let client = shared.world.client(
            of: "guests",
            features: Features.usual + (reactor % 2 == 0 ? [Features.unordered] : []),
            reactor: reactor
        )
        for round in 0..<rounds {
            var requests: [UInt8] = []
            for opaque in 0..<8 {
                let key = keys[Int.random(in: 0..<keys.count, using: &random)]
                let letter = String(UnicodeScalar(UInt8(97 + (round + opaque) % 26)))
                let value = String(repeating: letter, count: 50 + 40 * (round % 9))
                switch Int.random(in: 0..<10, using: &random) {
                case 0...3: requests += Ask.get(key, opaque: UInt32(opaque))
                case 4...6: requests += Ask.set(key, value, opaque: UInt32(opaque))
                case 7: requests += Ask.on(0x04, key, opaque: UInt32(opaque))
                case 8: requests += Ask.on(0xa0, key, opaque: UInt32(opaque))
                default:
                    let number = VBucketID(ofKey: Array(key.utf8), count: 64).number
                    // A flush replaces the bucket and its histories.
                    let bucket = shared.world.service.bucket(named: "guests")
                    let uuid = bucket?.engine[number]?.withCore { $0.uuid.value }
                    requests += frame(
                        0x91,
                        value: big(uuid ?? 1),
                        vBucket: number,
                        opaque: UInt32(opaque)
                    )
                }
            }
            client.send(requests)
            var replies = client.replies()
            let deadline = Date(timeIntervalSinceNow: 60)
            while replies.count < 8, Date() < deadline {
                usleep(50)
                client.pump()
                replies += client.replies()
            }
            guard replies.count == 8 else {
                return shared.report("reactor \(reactor): \(replies.count) replies of 8")
            }
            for reply in replies where reply.opcode == 0 && reply.status == 0 {
                if Set(reply.value).count > 1 { shared.report("torn: \(reply.text)") }
            }
        }
        client.hangUp()
    }

    private static func ejectValues(_ shared: Shared) {
        while !shared.isOver.withLock({ $0 }) {
            for key in keys { _ = shared.world.eject(key, from: "guests") }
            usleep(500)
        }
    }

    @Test(arguments: [false, true])
    func bucketSharedByReactorsAndLanesStaysConsistent(isFlushed: Bool) throws {
        let world = TestWorld(threads: 3)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let shared = Shared(world: world)
        let left = Guarded(3)
        var bodies: [@Sendable () -> Void] = (0..<3).map { reactor in
            {
                ThreadTests.serve(shared, reactor: reactor)
                let isLast = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                if isLast { shared.isOver.withLock { $0 = true } }
            }
        }
        bodies.append { ThreadTests.ejectValues(shared) }
        if isFlushed {
            bodies.append {
                while !shared.isOver.withLock({ $0 }) {
                    do {
                        try shared.world.service.flush("guests")
                    } catch {
                        shared.report("\(error)")
                    }
                    usleep(20_000)
                }
            }
        }
        run(bodies)
        #expect(shared.failures.withLock { $0 } == [])
        let stopped = DispatchSemaphore(value: 0)
        world.service.stop { stopped.signal() }
        #expect(stopped.wait(timeout: .now() + 30) == .success)
        world.service.stopLanes()
        let engine = try #require(world.service.bucket(named: "guests")).engine
        #expect(engine.account.bytes == TestWorld.recount(engine))
        #expect(world.service.bucket(named: "guests")?.totals[.diskQueue] == 0)
        #expect(world.trace.lines(atLeast: .error) == [])
    }
}
