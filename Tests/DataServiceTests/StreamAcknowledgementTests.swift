import Bytes
import DataService
import LinuxPlatform
import Seams
import TestWorld
import Testing
import Vocabulary
import Wire

/// Acknowledgements and answers count only for the connection and the request to which they belong.
///
/// The test passes the bytes of the connections itself.
@Suite(.serialized) struct StreamAcknowledgementTests {
    private let world: LinuxEnvironment
    private let service: DocumentService
    private let directory = TestWorld.freshDirectory()
    private let links = ScriptedLinks()
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
        service.use(links)
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

    /// A connection on which node 2 follows this one.
    private func follower() -> ScriptedConnection {
        let port = MemoryPort()
        let connection = ScriptedConnection(
            port,
            service.acceptChanges(from: NodeNumber(2), port: port)
        )
        connection.receive { NodeStreamEncoder.openChannel(1, bucket: settings.uuid, to: $0) }
        connection.receive { output in
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
        return connection
    }

    private func acknowledge(_ covered: UInt64, on connection: ScriptedConnection) {
        let word = NodeAcknowledgement(fence: 1, covered: Seqno(covered), onDisk: .zero)
        connection.receive { NodeStreamEncoder.append(word, at: address, to: $0) }
    }

    private var progress: UInt64? {
        service.bucket(named: "a")?.acknowledgements(of: VBucketID(0))
            .first { $0.node == NodeNumber(2) }?.word.covered.value
    }

    @Test func newConnectionReplacesAcknowledgementsOfNode() throws {
        defer { end() }
        try service.open(settings, map(1, fence: 1, [1, 2]), as: NodeNumber(1), isNew: true)
        let first = follower()
        let answers = first.answers
        #expect(answers.map(\.number) == [9], "an answer repeats the request's number")
        acknowledge(5, on: first)
        #expect(progress == 5)
        let second = follower()
        #expect(progress == nil, "the copy may have been emptied since")
        acknowledge(6, on: first)
        #expect(progress == nil, "the closed connection no longer counts")
        acknowledge(3, on: second)
        #expect(progress == 3)
        first.handler.closed()
        #expect(progress == 3, "closing the old connection keeps the new acknowledgement")
        second.handler.closed()
        #expect(progress == nil)
    }

    // MARK: Answers

    @Test func answerToEarlierStreamRequestIsIgnored() throws {
        defer { end() }
        try service.open(settings, map(1, fence: 1, [2, 1]), as: NodeNumber(1), isNew: true)
        let connection = try #require(links.newest())
        connection.turn()
        connection.receive {
            ResponseEncoder.append(
                .success,
                to: $0,
                replyTo: ReplyTo(.nodeOpenChannel, opaque: address.opaque)
            )
        }
        connection.turn()
        let first = try #require(connection.requests.last)
        // The map changes before the answer arrives.
        service.follow(map(2, fence: 2, [2, 1]), as: NodeNumber(1))
        connection.turn()
        let second = try #require(connection.requests.last)
        #expect(first.fence == 1 && second.fence == 2 && first.number != second.number)

        let log = FailoverLog(first: VBucketUUID(77), fence: 1)
        let accepted = NodeStreamAnswer.accepted(high: .zero, log)
        connection.receive {
            NodeStreamEncoder.append(accepted, to: first.number, at: address, to: $0)
        }
        #expect(service.reports("a").first?.hasCaughtUp == false)
        connection.receive {
            NodeStreamEncoder.append(accepted, to: second.number, at: address, to: $0)
        }
        #expect(service.reports("a").first?.hasCaughtUp == true)
        connection.handler.closed()
    }
}

/// A connection without a socket.
private final class ScriptedConnection {
    struct Request {
        let number: UInt64
        let fence: UInt64
    }

    let port: MemoryPort
    let handler: any ConnectionHandler
    private let output = ByteWriter()

    init(_ port: MemoryPort, _ handler: any ConnectionHandler) {
        self.port = port
        self.handler = handler
    }

    /// Passes the other side's bytes to the handler.
    func receive(_ write: (ByteWriter) -> Void) {
        let input = ByteWriter()
        write(input)
        let progress = handler.receive(input.view, output: output)
        #expect(progress.consumed == input.count)
    }

    /// Lets the handler process its events.
    func turn() { _ = handler.wake(.empty, output: output) }

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

/// Connects at once, to no real node.
private final class ScriptedLinks: ChangeLinks {
    private let connections = Guarded<[@Sendable () -> (MemoryPort, any ConnectionHandler)]>([])

    func connect(
        to node: NodeNumber,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable () -> Void
    ) {
        connections.withLock { connections in
            connections.append {
                let port = MemoryPort()
                return (port, connected(port))
            }
        }
    }

    func newest() -> ScriptedConnection? {
        guard let make = connections.withLock({ $0.last }) else { return nil }
        let (port, handler) = make()
        return ScriptedConnection(port, handler)
    }
}
