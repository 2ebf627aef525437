import Bytes
import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary
import Wire

/// The node's side of an HTTP feed: answers, credit and resumption, over a real engine and real files.
@Suite struct ChangesResponderTests {
    let base = FeedTests()

    private func write(_ key: String, _ bucket: OpenBucket) -> Seqno? {
        base.write(key, "value of \(key)", in: bucket)
    }

    private func collector(_ bucket: OpenBucket, hasValues: Bool = false) -> CollectorStand {
        let stand = CollectorStand(base.world)
        let opening = ChangesOpening(bucket: bucket.uuid, hasValues: hasValues, snapshotsMax: 2)
        stand.send(written { opening.append(to: $0) })
        return stand
    }

    @Test func changesAreSentAfterCreditAndOnlyThen() throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        _ = write("b", bucket)
        let stand = collector(bucket, hasValues: true)
        stand.open(1, .start)
        stand.settle()
        #expect(stand.received == ["opened 0 2"])
        stand.addCredit(1 << 20)
        stand.settle()
        #expect(
            stand.received.dropFirst() == [
                "snapshot 0 2", "change a 1 value of a", "change b 2 value of b",
            ]
        )
        _ = write("c", bucket)
        stand.settle()
        #expect(stand.received.suffix(2) == ["snapshot 2 3", "change c 3 value of c"])
    }

    @Test func creditIsExceededByOneChangeAtMost() throws {
        let bucket = try base.open()
        for number in 0..<50 { _ = write("key-\(number)", bucket) }
        let stand = collector(bucket)
        stand.open(1, .start)
        stand.settle()
        let before = stand.bytes
        stand.addCredit(300)
        stand.settle()
        #expect(stand.bytes - before >= 300 && stand.bytes - before < 300 + 100)
        for _ in 0..<20 { stand.addCredit(300) }
        stand.settle()
        #expect(stand.received.last == "change key-49 50")
    }

    @Test func feedResumesByCheckOfHistory() throws {
        let bucket = try base.open()
        for key in ["a", "b", "c"] { _ = write(key, bucket) }
        let uuid = try #require(bucket.engine[0]?.withCore { $0.uuid })
        let check = BranchCheck(of: uuid, vBucket: VBucketID(0), width: 24)
        let stand = collector(bucket)
        stand.addCredit(1 << 20)
        stand.open(1, ChangesPosition(branch: .check(check), seqno: Seqno(2)))
        stand.settle()
        #expect(stand.received == ["opened 2 3", "snapshot 2 3", "change c 3"])
    }

    @Test func positionOfUnknownHistoryIsRolledBackToZero() throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        let stand = collector(bucket)
        let check = BranchCheck(bits: 0, width: 1)
        let uuid = try #require(bucket.engine[0]?.withCore { $0.uuid })
        let wrong = BranchCheck(
            bits: check.matches(uuid, vBucket: VBucketID(0)) ? 1 : 0,
            width: 1
        )
        stand.open(1, ChangesPosition(branch: .check(wrong), seqno: Seqno(1)))
        stand.open(2, ChangesPosition(branch: .uuid(VBucketUUID(5)), seqno: Seqno(1)))
        stand.settle()
        #expect(stand.received == ["rolledBack 0", "rolledBack 0"])
    }

    @Test func positionBehindTheHighSeqnoIsRolledBackToIt() throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        let uuid = try #require(bucket.engine[0]?.withCore { $0.uuid })
        let stand = collector(bucket)
        stand.open(1, ChangesPosition(branch: .uuid(uuid), seqno: Seqno(9)))
        stand.settle()
        #expect(stand.received == ["rolledBack 1"])
    }

    @Test func latestPositionHasLaterChangesOnly() throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        let stand = collector(bucket)
        stand.addCredit(1 << 20)
        stand.open(1, .latest)
        stand.settle()
        _ = write("b", bucket)
        stand.settle()
        #expect(stand.received == ["opened 1 1", "snapshot 1 2", "change b 2"])
    }

    @Test func closedStreamSendsNothing() throws {
        let bucket = try base.open()
        let stand = collector(bucket)
        stand.addCredit(1 << 20)
        stand.open(1, .start)
        stand.settle()
        stand.send(written { ChangesFrame.append(.close, 1, to: $0) })
        _ = write("a", bucket)
        stand.settle()
        #expect(stand.received == ["opened 0 0"])
    }

    @Test func unknownBucketIsUnavailable() {
        let stand = CollectorStand(base.world)
        let opening = ChangesOpening(bucket: "none", hasValues: false, snapshotsMax: 2)
        stand.send(written { opening.append(to: $0) })
        stand.open(1, .start)
        stand.settle()
        #expect(stand.received == ["unavailable"])
    }

    @Test func changesOfEjectedDocumentsAreReadFromDisk() throws {
        let bucket = try base.open()
        for number in 0..<20 { _ = write("key-\(number)", bucket) }
        base.eject(bucket)
        let stand = collector(bucket, hasValues: true)
        stand.addCredit(1 << 20)
        stand.open(1, .start)
        stand.settle(milliseconds: 2_000)
        #expect(stand.received.count { $0.hasPrefix("change") } == 20)
        #expect(stand.received.contains("change key-19 20 value of key-19"))
    }

    @Test func invalidFrameClosesTheConnection() throws {
        let bucket = try base.open()
        let stand = collector(bucket)
        stand.send([0, 0, 0, 0, 0, 0, 0, 1, 99])
        #expect(stand.isClosed)
    }
}

/// A collector without a socket: hands frames to the handler as a reactor would.
private final class CollectorStand {
    private let world: TestWorld
    private let port = MemoryPort()
    private let handler: any ConnectionHandler
    private(set) var received: [String] = []
    private(set) var bytes = 0
    private(set) var isClosed = false
    private var waiting: [UInt8] = []

    init(_ world: TestWorld) {
        self.world = world
        handler = world.service.answerChanges(on: port)
    }

    deinit { handler.closed() }

    func open(_ number: UInt32, _ position: ChangesPosition) {
        let request = ChangesStreamRequest(vBucket: VBucketID(0), position: position)
        send(written { request.append(number, to: $0) })
    }

    func addCredit(_ count: Int) {
        send(
            written { ChangesFrame.append(.credit, to: $0) { $0.append(bigEndian: UInt32(count)) } }
        )
    }

    func send(_ frames: [UInt8]) {
        waiting += frames
        call()
    }

    /// Runs the lanes and the handler until both rest.
    func settle(milliseconds: UInt64 = 200) {
        for _ in 0..<milliseconds / 100 {
            world.pass(milliseconds: 100)
            while port.removeWake(), !isClosed { call() }
        }
    }

    private func call() {
        var isDraining = true
        while isDraining, !isClosed {
            let output = ByteWriter()
            let progress = waiting.withUnsafeBytes { buffer in
                handler.receive(ByteView(buffer), output: output)
            }
            waiting.removeFirst(progress.consumed)
            bytes += output.count
            decode(output.bytes)
            if case .close = progress.next { isClosed = true }
            if case .drain = progress.next { isDraining = true } else { isDraining = false }
        }
    }

    private func decode(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { buffer in
            var rest = ByteView(buffer)
            let decoder = ChangesFrameDecoder(isFromCollector: false)
            while case .frame(let frame) = decoder.next(in: rest) {
                rest = rest.dropFirst(frame.byteCount)
                if let message = try? ChangesMessage(frame) { received.append(text(message)) }
            }
            #expect(rest.isEmpty, "a handler appends whole frames only")
        }
    }

    private func text(_ message: ChangesMessage) -> String {
        switch message {
        case .opened(_, let start, let high): "opened \(start.value) \(high.value)"
        case .rolledBack(_, let seqno): "rolledBack \(seqno.value)"
        case .purged: "purged"
        case .unavailable: "unavailable"
        case .snapshot(let start, let end): "snapshot \(start.value) \(end.value)"
        case .change(let row):
            "change \(row.key.text) \(row.seqno.value)" + (row.value.map { " \($0.text)" } ?? "")
        case .advanced(let seqno): "advanced \(seqno.value)"
        case .ended: "ended"
        case .pong: "pong"
        }
    }
}

/// Writes with `body` and returns what was written.
private func written(_ body: (ByteWriter) -> Void) -> [UInt8] {
    let writer = ByteWriter()
    body(writer)
    return writer.bytes
}
