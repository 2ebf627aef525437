import Bytes
import DataService
import LinuxPlatform
import Seams
import TestWorld
import Testing
import Vocabulary
import Wire

/// Acknowledgements and answers count only for the stream and the request to which they belong.
///
/// The test is the other end of the streams.
@Suite(.serialized) struct StreamAcknowledgementTests {
    private let world: LinuxEnvironment
    private let service: DocumentService
    private let directory = TestWorld.freshDirectory()
    private let streams = ScriptedStreams()
    private let settings: BucketSettings
    private let address = NodeStreamAddress(channel: 1, vBucket: VBucketID(0))

    init() throws {
        world = LinuxEnvironment.make(reactors: 1, trace: RecordingTrace())
        service = DocumentService(
            environment: world.environment,
            version: "7.6.2",
            dataDirectory: directory,
            plainBucketName: nil
        )
        service.use(streams)
        var settings = TestWorld.settings("a", .ephemeral, quota: 64 << 20, vBuckets: 1)
        settings.uuid = String(repeating: "0", count: 31) + "a"
        self.settings = settings
    }

    private func end() {
        world.stop()
        service.stopLanes()
        TestWorld.remove(directory)
    }

    private func map(_ index: UInt64, fence: UInt64, _ chain: [UInt16]) -> BucketAssignment {
        BucketAssignment(
            name: settings.name,
            uuid: settings.uuid,
            index: index,
            vBuckets: [
                VBucketAssignment(
                    fence: fence,
                    stage: index,
                    chain: chain.map { NodeNumber($0) },
                    isConfirmed: true,
                    nextChain: [],
                    builders: [],
                    copies: 2,
                    origin: 0,
                    branch: nil,
                    isResumed: false
                )
            ]
        )
    }

    // MARK: Acknowledgements

    /// A stream on which node 2 follows this one.
    private func follower() throws -> ScriptedStream {
        let stream = try #require(streams.accepted())
        stream.receive { NodeStreamEncoder.openChannel(1, bucket: settings.uuid, to: $0) }
        stream.receive { output in
            NodeStreamEncoder.append(
                DCPStreamRequest(
                    flags: [],
                    start: .zero,
                    end: Seqno((1 << 48) - 1),
                    uuid: VBucketUUID(0),
                    snapshotStart: .zero,
                    snapshotEnd: .zero
                ),
                fence: 1,
                number: 9,
                at: address,
                to: output
            )
        }
        return stream
    }

    private func acknowledge(_ covered: UInt64, on stream: ScriptedStream) {
        let word = NodeAcknowledgement(fence: 1, covered: Seqno(covered), onDisk: .zero)
        stream.receive { NodeStreamEncoder.append(word, at: address, to: $0) }
    }

    private var progress: UInt64? {
        service.bucket(named: "a")?.acknowledgements(of: VBucketID(0))
            .first { $0.node == NodeNumber(2) }?.word.covered.value
    }

    @Test func newStreamReplacesAcknowledgementsOfNode() throws {
        defer { end() }
        try service.open(settings, map(1, fence: 1, [1, 2]), as: NodeNumber(1), isNew: true)
        let first = try follower()
        let answers = first.answers
        #expect(answers.map(\.number) == [9], "an answer repeats the request's number")
        acknowledge(5, on: first)
        #expect(progress == 5)
        let second = try follower()
        #expect(progress == nil, "the copy may have been emptied since")
        acknowledge(6, on: first)
        #expect(progress == nil, "the older stream no longer counts")
        acknowledge(3, on: second)
        #expect(progress == 3)
        first.handler.closed(nil)
        #expect(progress == 3, "the end of the old stream keeps the new acknowledgement")
        second.handler.closed(nil)
        #expect(progress == nil)
    }

    // MARK: Answers

    @Test func answerToEarlierStreamRequestIsIgnored() throws {
        defer { end() }
        try service.open(settings, map(1, fence: 1, [2, 1]), as: NodeNumber(1), isNew: true)
        let stream = try #require(streams.newest())
        stream.turn()
        stream.receive {
            ResponseEncoder.append(
                .success,
                to: $0,
                replyTo: ReplyTo(.nodeOpenChannel, opaque: address.opaque)
            )
        }
        stream.turn()
        let first = try #require(stream.requests.last)
        // The map changes before the answer arrives.
        service.applyMap(map(2, fence: 2, [2, 1]), as: NodeNumber(1))
        stream.turn()
        let second = try #require(stream.requests.last)
        #expect(first.fence == 1 && second.fence == 2 && first.number != second.number)

        let log = FailoverLog(first: VBucketUUID(77), fence: 1)
        let accepted = NodeStreamAnswer.accepted(high: .zero, log)
        stream.receive {
            NodeStreamEncoder.append(accepted, to: first.number, at: address, to: $0)
        }
        #expect(service.reports("a").first?.hasCaughtUp == false)
        stream.receive {
            NodeStreamEncoder.append(accepted, to: second.number, at: address, to: $0)
        }
        #expect(service.reports("a").first?.hasCaughtUp == true)
        stream.handler.closed(nil)
    }

    // MARK: Messages

    @Test func messageWithTruncatedFrameIsInvalid() throws {
        defer { end() }
        try service.open(settings, map(1, fence: 1, [1, 2]), as: NodeNumber(1), isNew: true)
        let stream = try #require(streams.accepted())
        let message = ByteWriter()
        NodeStreamEncoder.openChannel(1, bucket: settings.uuid, to: message)
        message.truncate(to: message.count - 1)
        guard case .invalid = stream.handler.receive(message.view) else {
            Issue.record("a truncated frame was accepted")
            return
        }
        stream.handler.closed("it sent an invalid frame")
    }
}

/// One end of a stream, whose other end is the test.
private final class ScriptedStream: StreamOutput {
    struct Request {
        let number: UInt64
        let fence: UInt64
    }

    let handler: any StreamHandler
    let room = NodeStreamLimits.turnBytes
    let credit = NodeStreamLimits.turnBytes
    private let output = ByteWriter()

    init(_ handler: any StreamHandler) { self.handler = handler }

    func append(_ body: (ByteWriter) -> Void) { body(output) }

    /// Passes a message to the handler.
    func receive(_ write: (ByteWriter) -> Void) {
        let input = ByteWriter()
        write(input)
        guard case .handled = handler.receive(input.view) else {
            Issue.record("a message was not handled")
            return
        }
        _ = handler.send(self)
    }

    /// Lets the handler process its events.
    func turn() {
        handler.wake()
        _ = handler.send(self)
    }

    private func frames(_ visit: (Frame) -> Void) {
        var offset = 0
        while case .frame(let frame) = FrameDecoder().next(in: output.view.dropFirst(offset)) {
            visit(frame)
            offset += frame.byteCount
        }
    }

    /// The stream requests that the handler wrote.
    var requests: [Request] {
        var found: [Request] = []
        frames { frame in
            guard case .streamRequest(_, let fence)? = NodeStreamMessage(frame) else { return }
            found.append(Request(number: frame.cas.value, fence: fence))
        }
        return found
    }

    /// The handler's answers to stream requests.
    var answers: [(number: UInt64, answer: NodeStreamAnswer)] {
        var found: [(number: UInt64, answer: NodeStreamAnswer)] = []
        frames { frame in
            guard frame.header.magic == .response, frame.opcode == .nodeStreamRequest,
                let answer = NodeStreamAnswer(frame)
            else { return }
            found.append((frame.cas.value, answer))
        }
        return found
    }
}

/// Streams to node 2, whose end the test is.
private final class ScriptedStreams: NodeStreams {
    private typealias Accept = @Sendable (any StreamPort, ByteView) -> (any StreamHandler)?
    private let accept = Guarded<Accept?>(nil)
    private let opened = Guarded<(@Sendable (any StreamPort) -> any StreamHandler)?>(nil)

    func serve(
        _ service: NodeService,
        _ accept: @escaping @Sendable (any StreamPort, ByteView) -> (any StreamHandler)?
    ) {
        self.accept.withLock { $0 = accept }
    }

    func open(
        _ service: NodeService,
        to node: NodeNumber,
        request: [UInt8],
        opened: @escaping @Sendable (any StreamPort) -> any StreamHandler,
        failed: @escaping @Sendable (String) -> Void
    ) {
        self.opened.withLock { $0 = opened }
    }

    /// A new stream of the node.
    func accepted() -> ScriptedStream? {
        let accept = accept.withLock { $0 }
        return accept?(ScriptedPort(), .empty).map { ScriptedStream($0) }
    }

    /// The stream that the service opened last.
    func newest() -> ScriptedStream? {
        let opened = opened.withLock { $0 }
        return opened.map { ScriptedStream($0(ScriptedPort())) }
    }
}

private final class ScriptedPort: StreamPort {
    let node = NodeNumber(2)
    let reactor = 0

    func wake() {}
    func end(_ reason: String?) {}
    func release(_ bytes: Int) {}
}
