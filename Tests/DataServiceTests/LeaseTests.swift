import Bytes
import DataService
import LinuxPlatform
import Seams
import TestWorld
import Testing
import Vocabulary

/// The second check of the lease: an answer is sent only while the lease holds.
@Suite struct LeaseTests {
    private let clock = ManualTime(stepNanoseconds: 1)

    /// The result of a request for a document if the lease ends after the given number of clock
    /// readings: the bytes sent, and whether the connection stays open.
    private func ask(looks: UInt64, _ request: [UInt8]) throws -> (bytes: Int, isOpen: Bool) {
        let world = LinuxEnvironment.make(reactors: 1, trace: RecordingTrace())
        let directory = TestWorld.freshDirectory()
        let service = DocumentService(
            environment: world.environment.with(time: clock),
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
        let port = MemoryPort()
        let connection = Connection(port: port, service: service, isMemcachedListener: false)
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
