import Bytes
import Credentials
import DivanClient
import Seams
import Testing
import Vocabulary
import Wire

/// One connection's protocol, frame by frame.
@Suite struct ConnectionMachineTests {
    /// The machine, and the server's side of the connection, which the test plays.
    private final class Session {
        var machine: ConnectionMachine
        private var unread: [UInt8] = []
        let output = ByteWriter()

        init(allowsPlain: Bool = false) {
            var login = Handshake.Login(user: "ann", password: "secret", bucket: "documents")
            login.allowsPlain = allowsPlain
            machine = ConnectionMachine(login, nonce: String(repeating: "5a", count: 16))
            machine.begin(output)
        }

        /// The requests that the machine has sent since the last call.
        func sent() -> [(opcode: Opcode?, opaque: UInt32, key: [UInt8], value: [UInt8])] {
            var frames: [(Opcode?, UInt32, [UInt8], [UInt8])] = []
            var rest = output.view
            while case .frame(let frame) = FrameDecoder().next(in: rest) {
                frames.append((frame.opcode, frame.opaque, frame.key.bytes, frame.value.bytes))
                rest = rest.dropFirst(frame.byteCount)
            }
            #expect(rest.isEmpty)
            output.removeAll()
            return frames
        }

        func answer(
            _ opcode: Opcode,
            _ status: Status = .success,
            value: [UInt8] = [],
            opaque: UInt32 = 0
        ) -> ConnectionMachine.Event? {
            let writer = ByteWriter()
            value.withUnsafeBytes {
                ResponseEncoder.append(
                    status,
                    to: writer,
                    replyTo: ReplyTo(opcode, opaque: opaque),
                    value: ByteView($0)
                )
            }
            return deliver(writer)
        }

        func deliver(_ writer: ByteWriter) -> ConnectionMachine.Event? {
            guard case .frame(let frame) = FrameDecoder().next(in: writer.view) else {
                Issue.record("the test encoded no frame")
                return nil
            }
            return machine.handle(frame, output)
        }

        /// Completes the login.
        func login() -> ConnectionMachine.Event? {
            _ = answer(.hello, value: [0, 4])
            _ = answer(.saslListMechanisms, value: Array("PLAIN".utf8))
            _ = answer(.saslAuth)
            _ = answer(.selectBucket)
            let event = answer(.getClusterConfig, value: Array("{}".utf8))
            _ = sent()
            return event
        }

        func ask(_ ticket: UInt64, _ opcode: Opcode = .get) -> UInt32? {
            let request = Request(opcode, key: Array("k".utf8), isWrite: false)
            machine.send(request, vBucket: VBucketID(3), ticket: ticket, output)
            return sent().first?.opaque
        }
    }

    private func failure(_ event: ConnectionMachine.Event?) -> Handshake.Failure? {
        if case .failed(let failure) = event { failure } else { nil }
    }

    @Test func loginProvesThePasswordWithoutSendingIt() throws {
        let session = Session()
        var all: [UInt8] = session.output.bytes
        let first = session.sent()
        #expect(first.map(\.opcode) == [.hello, .saslListMechanisms])
        #expect(first.first?.key.starts(with: Array("{\"a\":\"divan-client\"".utf8)) == true)
        #expect(session.answer(.hello, value: [0, 4, 0, 0x0c, 0, 0x0d]) == nil)
        let list = Array("SCRAM-SHA512 SCRAM-SHA256 SCRAM-SHA1 PLAIN".utf8)
        #expect(session.answer(.saslListMechanisms, value: list) == nil)
        all += session.output.bytes
        let opening = try #require(session.sent().first)
        #expect(opening.key == Array("SCRAM-SHA512".utf8))
        let stored = RealNode.credentials("secret")
        let challenge = opening.value.withUnsafeBytes {
            SCRAMServer.start(
                .sha512,
                clientFirst: ByteView($0),
                serverNonce: Array("abcdefghijklmnopqrst".utf8),
                rules: PasswordRules(decoySecret: [1, 2, 3]),
                lookup: { $0 == "ann" ? stored : nil }
            )
        }
        guard case .answer(let server, let serverFirst) = challenge else {
            Issue.record("no challenge")
            return
        }
        #expect(session.answer(.saslAuth, .authContinue, value: serverFirst) == nil)
        all += session.output.bytes
        let proof = try #require(session.sent().first)
        let decision = proof.value.withUnsafeBytes { server.finish(clientFinal: ByteView($0)) }
        guard case .authenticated(let user, let serverFinal) = decision else {
            Issue.record("the proof was refused: \(decision)")
            return
        }
        #expect(user == "ann")
        #expect(session.answer(.saslStep, value: serverFinal) == nil)
        #expect(session.sent().map(\.opcode) == [.selectBucket, .getClusterConfig])
        #expect(session.answer(.selectBucket) == nil)
        let event = session.answer(.getClusterConfig, value: Array("{}".utf8))
        guard case .ready(let features, let configuration) = event else {
            Issue.record("not ready")
            return
        }
        #expect(features == FeatureSet([.mutationSeqno, .duplex, .clusterMapNotification]))
        #expect(configuration == Array("{}".utf8))
        #expect(!String(decoding: all, as: UTF8.self).contains("secret"))
    }

    @Test func serverThatDoesNotKnowThePasswordIsRefused() {
        let session = Session()
        _ = session.answer(.hello)
        _ = session.answer(.saslListMechanisms, value: Array("SCRAM-SHA256".utf8))
        let nonce = session.sent().last.map { String(decoding: $0.value, as: UTF8.self) } ?? ""
        let mine = nonce.split(separator: ",").last.map { $0.dropFirst(2) } ?? ""
        let serverFirst = "r=\(mine)xyz,s=c2FsdHNhbHQ=,i=16"
        #expect(session.answer(.saslAuth, .authContinue, value: Array(serverFirst.utf8)) == nil)
        let event = session.answer(.saslStep, value: Array("v=bm90aGluZw==".utf8))
        #expect(failure(event)?.reason == .authentication)
    }

    @Test func passwordIsSentOnlyIfAllowedAndWithoutAnAlternative() {
        let careful = Session()
        _ = careful.answer(.hello)
        let event = careful.answer(.saslListMechanisms, value: Array("PLAIN".utf8))
        #expect(failure(event)?.reason == .authentication)
        let trusting = Session(allowsPlain: true)
        #expect(trusting.login() != nil)
        let withChoice = Session(allowsPlain: true)
        _ = withChoice.answer(.hello)
        _ = withChoice.answer(.saslListMechanisms, value: Array("PLAIN SCRAM-SHA256".utf8))
        #expect(withChoice.sent().last?.key == Array("SCRAM-SHA256".utf8))
    }

    @Test(arguments: [
        (Status.accessDenied, Handshake.Failure.Reason.noBucket), (.keyNotFound, .notReady),
        (.notInitialized, .notReady),
    ])
    func missingBucketIsDistinguishedFromOneNotReady(
        status: Status,
        reason: Handshake.Failure.Reason
    ) {
        let session = Session(allowsPlain: true)
        _ = session.answer(.hello)
        _ = session.answer(.saslListMechanisms, value: Array("PLAIN".utf8))
        _ = session.answer(.saslAuth)
        #expect(failure(session.answer(.selectBucket, status))?.reason == reason)
    }

    @Test func loginSucceedsIfTheBucketHasNoMapYet() {
        let session = Session(allowsPlain: true)
        _ = session.answer(.hello)
        _ = session.answer(.saslListMechanisms, value: Array("PLAIN".utf8))
        _ = session.answer(.saslAuth)
        _ = session.answer(.selectBucket)
        guard case .ready(_, nil) = session.answer(.getClusterConfig, .keyNotFound) else {
            Issue.record("not ready")
            return
        }
    }

    @Test func answersInAnyOrderAreMatchedToTheirRequests() throws {
        let session = Session(allowsPlain: true)
        _ = session.login()
        let opaques = try (UInt64(1)...3).map { try #require(session.ask($0)) }
        #expect(Set(opaques).count == 3)
        for ticket in [3, 1, 2] as [UInt64] {
            let event = session.answer(.get, .keyNotFound, opaque: opaques[Int(ticket) - 1])
            guard case .answered(ticket, let answer) = event else {
                Issue.record("\(String(describing: event))")
                continue
            }
            #expect(answer.status == Status.keyNotFound.rawValue)
        }
        #expect(session.machine.pendingCount == 0)
    }

    @Test func answerWithoutARequestEndsTheConnection() throws {
        for wrong in [false, true] {
            let session = Session(allowsPlain: true)
            _ = session.login()
            let opaque = try #require(session.ask(1))
            // An unknown opaque, or a known one with another opcode.
            let event =
                wrong
                ? session.answer(.set, opaque: opaque) : session.answer(.get, opaque: opaque &+ 7)
            #expect(failure(event)?.reason == .invalidMessage)
            #expect(session.answer(.get, opaque: opaque) == nil)
        }
    }

    @Test func pushedMapIsReportedDuringAndAfterTheLogin() {
        let session = Session(allowsPlain: true)
        for isReady in [false, true] {
            if isReady { _ = session.login() }
            let writer = ByteWriter()
            writer.append(FakeNode.push(Array("{}".utf8), bucket: "documents"))
            guard case .pushed("documents", let json) = session.deliver(writer) else {
                Issue.record("the push was not reported")
                continue
            }
            #expect(json == Array("{}".utf8))
        }
    }

    @Test func durableWriteIsEncodedAsAFlexibleFrame() {
        let writer = ByteWriter()
        var request = Request(.set, key: Array("k".utf8), isWrite: true)
        request.durability = DurabilityRequirement(level: .majority, timeoutMilliseconds: 700)
        request.extras = [UInt8](repeating: 0, count: 8)
        let session = Session(allowsPlain: true)
        _ = session.login()
        session.machine.send(request, vBucket: VBucketID(5), ticket: 1, writer)
        #expect(writer.bytes.starts(with: [0x08, 0x01, 4, 1, 8, 0, 0, 5]))
        #expect(Array(writer.bytes[24..<28]) == [0x13, 1, 0x02, 0xbc])
        #expect(request.needs.features == [.alternativeRequest, .syncReplication])
    }
}
