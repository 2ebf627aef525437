import Bytes
import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary
import Wire

/// The node's side of an HTTP feed: answers, room and resumption, over a real engine and real files.
@Suite struct ChangesResponderTests {
    let base = FeedTests()

    private func write(_ key: String, _ bucket: OpenBucket) -> Seqno? {
        base.write(key, "value of \(key)", in: bucket)
    }

    private func collector(_ bucket: OpenBucket, hasValues: Bool = false) -> CollectorStand {
        CollectorStand(base.world, bucket.uuid, hasValues: hasValues)
    }

    @Test func changesAreSentOnlyAfterBegin() throws {
        let bucket = try base.open()
        _ = write("a", bucket)
        _ = write("b", bucket)
        let stand = collector(bucket, hasValues: true)
        stand.open(1, .start)
        stand.settle()
        #expect(stand.received == ["opened 0 2"])
        stand.begin()
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

    @Test(arguments: [false, true]) func windowIsExceededByOneReadAtMost(
        _ isOnDisk: Bool
    ) throws {
        let bucket = try base.open()
        let value = String(repeating: "v", count: 10_000)
        for number in 0..<50 { _ = base.write("key-\(number)", value, in: bucket) }
        if isOnDisk { base.eject(bucket) }
        let stand = collector(bucket, hasValues: true)
        stand.keepsMessages = true
        stand.begin()
        stand.open(1, .start)
        stand.settle(milliseconds: 2_000)
        let window = NodeService.feeds.row.windowBytes
        // What is read from disk are whole blocks.
        let excess = isOnDisk ? 3 * 10_100 : 10_100
        #expect(stand.bytes >= window && stand.bytes < window + excess)
        stand.keepsMessages = false
        stand.release()
        stand.settle(milliseconds: 2_000)
        #expect(stand.received.count { $0.hasPrefix("change") } == 50)
    }

    @Test func feedResumesByCheckOfHistory() throws {
        let bucket = try base.open()
        for key in ["a", "b", "c"] { _ = write(key, bucket) }
        let uuid = try #require(bucket.engine[0]?.withCore { $0.uuid })
        let check = BranchCheck(of: uuid, vBucket: VBucketID(0), width: 24)
        let stand = collector(bucket)
        stand.begin()
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

    @Test func positionAboveHighSeqnoIsRolledBackToHighSeqno() throws {
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
        stand.begin()
        stand.open(1, .latest)
        stand.settle()
        _ = write("b", bucket)
        stand.settle()
        #expect(stand.received == ["opened 1 1", "snapshot 1 2", "change b 2"])
    }

    @Test func closedStreamSendsNothing() throws {
        let bucket = try base.open()
        let stand = collector(bucket)
        stand.begin()
        stand.open(1, .start)
        stand.settle()
        stand.send(.close, 1)
        _ = write("a", bucket)
        stand.settle()
        #expect(stand.received == ["opened 0 0"])
    }

    @Test func unknownBucketIsUnavailable() {
        let stand = CollectorStand(base.world, "none")
        stand.open(1, .start)
        stand.settle()
        #expect(stand.received == ["unavailable"])
    }

    @Test func changesOfEjectedDocumentsAreReadFromDisk() throws {
        let bucket = try base.open()
        for number in 0..<20 { _ = write("key-\(number)", bucket) }
        base.eject(bucket)
        let stand = collector(bucket, hasValues: true)
        stand.begin()
        stand.open(1, .start)
        stand.settle(milliseconds: 2_000)
        #expect(stand.received.count { $0.hasPrefix("change") } == 20)
        #expect(stand.received.contains("change key-19 20 value of key-19"))
    }

    @Test func invalidRequestEndsTheStream() throws {
        let bucket = try base.open()
        let stand = collector(bucket)
        stand.send([1, 99])
        stand.settle()
        #expect(stand.reason?.hasPrefix("it sent an invalid request") == true)
    }

    @Test func invalidOpeningIsRefused() {
        let stand = CollectorStand(base.world, "none", snapshotsMax: 0)
        stand.settle()
        #expect(stand.reason == "it does not serve the stream")
    }
}

/// A collector in the process of the node.
private final class CollectorStand:
    @unchecked Sendable  // tidy:allow everything here is one thread
{
    private let world: TestWorld
    private var port: (any StreamPort)?
    private(set) var received: [String] = []
    private(set) var bytes = 0
    /// Why the stream is over; nil while it is not.
    private(set) var reason: String?
    /// Whether received bytes count against the window.
    var keepsMessages = false
    private var keptBytes = 0
    private var waiting: [[UInt8]] = []

    init(
        _ world: TestWorld,
        _ bucket: String,
        hasValues: Bool = false,
        snapshotsMax: UInt16 = 2
    ) {
        self.world = world
        let opening = ChangesOpening(
            bucket: bucket,
            hasValues: hasValues,
            snapshotsMax: snapshotsMax
        )
        LocalStream.open(
            .feeds,
            between: (NodeNumber(1), NodeNumber(1)),
            on: world.lanes.makeLane("stream", isPatient: false),
            request: opening.encoded,
            accept: { [service = world.service] in service.answerChanges(on: $0, to: $1) },
            opened: { [unowned self] port in
                self.port = port
                return Ears(self)
            }
        )
        world.settle()
    }

    deinit {
        port?.end(nil)
        world.settle()
    }

    func begin() { send(.begin, 0) }

    func open(_ number: UInt32, _ position: ChangesPosition) {
        send(.open(VBucketID(0), position), number)
    }

    func send(_ request: HTTPFeedRequest, _ number: UInt32) {
        let writer = ByteWriter()
        request.append(number, to: writer)
        send(writer.bytes)
    }

    func send(_ message: [UInt8]) {
        waiting.append(message)
        port?.wake()
    }

    /// Releases what was kept.
    func release() {
        port?.release(keptBytes)
        keptBytes = 0
    }

    func settle(milliseconds: UInt64 = 200) { world.pass(milliseconds: milliseconds) }

    // MARK: Called by the stream

    func receive(_ message: ByteView) -> StreamReception {
        bytes += message.count
        do {
            try ChangesMessage.forEach(in: message) { _, message in received.append(text(message)) }
        } catch {
            Issue.record(error)
        }
        guard keepsMessages else { return .handled }
        keptBytes += message.count
        return .kept
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        for message in waiting { output.append { $0.append(message) } }
        waiting = []
        return .asleep
    }

    func closed(_ reason: String?) { self.reason = reason ?? "" }

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
        }
    }
}

/// The handler, which the stream keeps; the test keeps the stand.
private final class Ears: StreamHandler {
    private weak var stand: CollectorStand?

    init(_ stand: CollectorStand) { self.stand = stand }

    func receive(_ message: ByteView) -> StreamReception { stand?.receive(message) ?? .handled }

    func send(_ output: any StreamOutput) -> StreamProgress { stand?.send(output) ?? .asleep }

    func closed(_ reason: String?) { stand?.closed(reason) }
}
