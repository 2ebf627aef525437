import Bytes
import DataService
import LinuxPlatform
import Seams
import TestWorld
import Testing
import Vocabulary

/// A clock that advances with every reading.
private final class SteppingClock: TimeSource {
    private let reads = Guarded<UInt64>(0)

    func monotonicNanoseconds() -> UInt64 {
        reads.withLock { reads in
            reads += 1
            return reads
        }
    }

    func wallNanoseconds() -> UInt64 { 1_700_000_000_000_000_000 }
}

private final class DeadPort: ConnectionPort {
    let peer = SocketAddress(host: "127.0.0.1", port: 1)
    let local = SocketAddress(host: "127.0.0.1", port: 2)
    let reactor = 0

    func wake() {}

    func close() {}
}

/// The second check of the lease: an answer is sent only while the lease holds.
@Suite struct LeaseTests {
    private let clock = SteppingClock()

    /// The result of a request for a document if the lease ends after the given number of clock
    /// readings: the bytes sent, and whether the connection stays open.
    private func ask(looks: UInt64, _ request: [UInt8]) throws -> (bytes: Int, isOpen: Bool) {
        let world = LinuxEnvironment.make(reactors: 1, trace: RecordingTrace())
        let directory = TestWorld.freshDirectory()
        let service = DocumentService(
            environment: Environment(
                time: clock,
                entropy: world.environment.entropy,
                network: world.environment.network,
                disk: world.environment.disk,
                lanes: world.environment.lanes,
                trace: world.environment.trace,
                children: world.environment.children
            ),
            version: "7.6.2",
            dataDirectory: directory,
            plainBucketName: nil
        )
        defer {
            world.stop()
            service.stopLanes()
            TestWorld.remove(directory)
        }
        try service.open(TestWorld.settings("guests"))
        let connection = Connection(port: DeadPort(), service: service, isMemcachedListener: false)
        let output = ByteWriter()
        func receive(_ bytes: [UInt8]) -> ReceiveProgress {
            output.removeAll()
            return bytes.withUnsafeBytes { connection.receive(ByteView($0), output: output) }
        }
        _ = receive(Ask.hello([Features.json]) + Ask.guest(of: "guests"))
        service.setLease(endNanoseconds: clock.monotonicNanoseconds() + looks)
        let progress = receive(request)
        connection.closed()
        if case .close = progress.next { return (output.count, false) }
        return (output.count, true)
    }

    @Test func answerAfterEndOfLeaseIsDroppedWithConnection() throws {
        for request in [Ask.get("a"), Ask.set("a", "x"), Ask.get("a") + Ask.set("b", "x")] {
            // One reading at the begin of the turn, and one at its end.
            let intime = try ask(looks: 100, request)
            #expect(intime.bytes >= 24 && intime.isOpen)
            let late = try ask(looks: 2, request)
            #expect(late.bytes == 0 && !late.isOpen)
        }
    }

    @Test func requestThatNeedsNoLeaseIsAnsweredWithoutLease() throws {
        let answered = try ask(looks: 2, frame(0x0a))
        #expect(answered.bytes == 24 && answered.isOpen)
        let refused = try ask(looks: 0, Ask.get("a"))
        #expect(refused.bytes == 24 && refused.isOpen)
    }
}
